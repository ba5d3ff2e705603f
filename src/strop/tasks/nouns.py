"""Common nouns in three parts without a word in common, so that a key may be asked for that was never calibrated on.

`similar` joins two of them by a hyphen, so that keys share halves: for n keys, both halves are drawn from √(2n) words
each, of whose 2n joins half are used. A key then shares each of its halves with about √(n/2) others. Dense keys share
one half with up to n/2 others, as keys do among far more pairs: so few pairs can be hard ones to learn by.
"""

from __future__ import annotations

import math

from strop._checks import require
from strop.tasks.passages import Draw
from strop.tasks.prose import Split
from strop.tasks.words import THINGS

_VALIDATION = """
    altar armour artist atlas author band barn barrel bed beetle blanket bracelet bugle canal canvas cedar cell
    chariot chisel cliff clown coast comb corner crab cushion daughter diamond dog dolphin egg elephant envelope
    factory fairy fish flock fort fur gem geyser guard guest gun gym hall hero hospital hut ice icicle iris jeep
    kennel knot lamb leather lid lobster loom lute mango march mast metal mole moth mud mug mushroom net night
    opera otter panda park parrot path pearl photo poem poet polo pony porch pot priest pupil puppy quarry raft
    rainbow raisin reef rice rider robin robot rod sauce scissors screw seat seed shark sink sled song soup
    sparrow statue storm story stream suit tailor tea teeth tie tile toast toe trail tuna uncle village voice
    walrus watch waterfall wife willow wind witch woman worm yarn year yeast zipper"""
_TEST = """
    acorn actor adult album alley anchor angel ankle antler apron archer aspen attic autumn axle baby bacon bagel
    baker balcony ball balloon banana bank banner barge bark barley bat bath battery bay bead beam bean bear
    beaver bee beech bell belt bicycle bird biscuit blossom boot border bouquet box boy brain branch brass breeze
    bride bronze brook brother bubble buffalo building bull bullet bus bush butcher butter cactus cafe cage cake
    calendar calf camera camp cannon canyon cape captain car caravan carrot cart cat cave ceiling cellar chain
    chapel chapter chest chicken chimney chin cigar cinema city cloak closet cloth clover club coach coal cobra
    coin college colt comet compass concert cook cookie cottage counter cousin cow crate creek cricket crocus
    cross crowd crystal cube cup cycle daisy dance dawn deer dentist desert diary dice dinner doctor doll donkey
    dove driver dust ear earth easel echo elbow elm emerald evening eye face falcon fan farmer father ferry fiddle
    fig film fire fist flask fleet floor flour fly foam fog foot fountain friend fruit galaxy gallery garage
    garlic ghost giant ginger giraffe girl glacier goat goblet gown grain granite grave gravel grove gull hair
    hand harp harvest hawk hay hazel heart hedge heel helmet hen herb herd heron hive hoof horn hotel hour hunter
    idol inch ink inn insect iron ivory ivy jam jasmine jaw jelly jet joint journal judge juice jungle jury kayak
    kernel king kitchen kitten knee knight lace lane lantern lark lawn lawyer ledge leg lens library lighthouse
    lily lime linen lip lizard loaf log lotus lunch lung machine magnet maid mallet manor mansion maple mask mat
    match mayor meal medal meteor mile milk mill miner mint minute missile mist mitten moat monk monkey monster
    month moose moss mother motor mouth mule museum music nail napkin neck nephew newspaper noodle nose notebook
    novel nurse nut oar oasis oat office oil olive orchard orchid organ ox oyster paddle page pail palm pan panel
    parade parcel party pasta patio paw pea peacock peak pebble pelican pen penguin penny people perch petal phone
    picnic picture pie pig pigeon pilgrim pilot pin pine pirate pistol pit planet plank plant plum pool poplar
    poppy port poster powder prairie prison prize puddle pump pumpkin puppet puzzle pyramid queen quill rail ram
    ranch raven razor reed rifle robe rocket root rowboat ruby rug ruler sack sailor salad salmon sandal sapphire
    sardine sausage scale school score screen sea seal season shadow shed sheep shelf shepherd shore shoulder
    shower shrimp sister skate ski skirt skull sky sleeve slipper smoke snail snow soccer sock soldier son spade
    spear spider sponge squirrel stadium staff stage stairs stamp steak steam steel stem step stick stool stork
    street string studio summer sun sunset surgeon swamp sword syrup tape target tavern teacher team teapot
    telescope temple tennis theatre thistle thorn thread throne thumb thunder ticket tide timber tin tire toad
    tomato tongue tooth top towel town toy track tractor tray treasure tribe truck trunk tub tulip turkey turnip
    twig twin unicorn uniform urn van veil velvet vessel vest villa vine vinegar visitor volcano vulture waiter
    wallet walnut warrior wasp wave wax web week whip windmill wine wire wizard wreath wrist writer yacht yard
    zebra zoo"""

NOUNS: dict[Split, tuple[str, ...]] = {
    "train": THINGS,
    "validation": tuple(_VALIDATION.split()),
    "test": tuple(_TEST.split()),
}


def plain(count: int, split: Split, draw: Draw) -> list[str]:
    """Return `count` different nouns."""
    words = NOUNS[split]
    require(count <= len(words), f"size must be at most {len(words)}", count, "There are no more nouns to ask for")
    return draw.some(words, count)


def similar(count: int, split: Split, draw: Draw, dense: bool = False) -> list[str]:
    """Return `count` different keys such as oak-pear, many of which share a half; where `dense`, more of them do."""
    words = NOUNS[split]
    halves = _draw_dense(count, len(words) // 2, draw) if dense else [math.ceil(math.sqrt(2 * count))] * 2
    most = (len(words) // 2) ** 2 // 2
    require(sum(halves) <= len(words), f"size must be at most {most}", count, "There are no more nouns to join")
    drawn = draw.some(words, sum(halves))
    joined = [f"{first}-{second}" for first in drawn[: halves[0]] for second in drawn[halves[0] :]]
    return draw.some(joined, count)


def _draw_dense(count: int, longest: int, draw: Draw) -> list[int]:
    """How many first and second halves: few of one kind, and hardly more joins than keys."""
    square = math.ceil(math.sqrt(count))
    few = draw.integer(min(square, max(2, math.ceil(count / longest))), square + 1)
    return draw.some([few, math.ceil(count / few)], 2)
