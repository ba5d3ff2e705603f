"""Plain words to make prompts of: things, colours and sentences that say nothing of importance."""

from __future__ import annotations

from strop.errors import ArgumentError
from strop.tasks.passages import Draw

_THINGS = """
    apple arrow badge banjo basin basket beach beard bench berry blade board boat bone book bottle bowl bread brick
    bridge broom brush bucket button cabin cable camel candle canoe card carpet castle chair chalk cheese cherry church
    circle clock cloud coat coffee collar copper coral corn cotton couch cradle crane crown curtain desk dish door
    dragon drawer dress drum duck eagle engine fabric farm feather fence field finger flag flame flower flute forest
    fork fox frame frog garden gate glass glove gold goose grape grass guitar hammer harbour hat hill honey hook horse
    house island jacket jar jewel kettle key kite knife ladder lake lamp leaf lemon letter lion lock map marble market
    meadow melon mirror moon mountain mouse needle nest oak ocean onion orange oven owl paint palace paper peach pear
    pencil pepper piano pillow pipe plate plough pocket pond potato prince purse quilt rabbit radio rain ribbon ring
    river road rock roof rope rose saddle sail salt sand saw scarf shell shield ship shirt shoe shovel silk silver
    snake soap sofa spoon spring stable star stone stove sugar swan table tail tent tiger torch tower train tree
    trumpet tunnel turtle umbrella valley vase violin wagon wall water whale wheat wheel whistle window wing winter
    wolf wood wool"""
_COLOURS = "amber black blue brown golden green grey orange pink purple red silver violet white yellow"

THINGS = tuple(_THINGS.split())
COLOURS = tuple(_COLOURS.split())

FILLER = (
    "The grass by the road was long and still wet from the night.",
    "A cart went past, and the dust took a while to settle.",
    "Somebody had left a window open on the upper floor.",
    "The baker swept his step and looked up at the clouds.",
    "Two children argued about the rules of a game nobody else knew.",
    "It was the sort of afternoon on which letters are put off until tomorrow.",
    "The clock in the hall had been slow for as long as anyone remembered.",
    "Along the canal the trees leaned over as if they were listening.",
    "The soup was better than it looked, and there was plenty of it.",
    "A dog slept in the doorway and did not move for visitors.",
    "By evening the wind had turned and smelled faintly of the sea.",
    "The old bridge was closed, so the walk took half an hour longer.",
    "Most of the shops had drawn their shutters before the bells rang.",
    "She folded the newspaper and put it under the shorter leg of the table.",
    "Nobody could say who had planted the roses, only that they had always been there.",
    "The train was late again, which surprised no one on the platform.",
    "He counted the steps, lost count, and began to whistle instead.",
    "There were apples in the cellar, and jars whose labels had faded.",
    "The painter preferred the north room because its light did not change.",
    "A kettle began to sing in the kitchen, and the talk stopped for a moment.",
)


def names(count: int, draw: Draw) -> list[str]:
    """Return `count` different names of things, with colours where plain things do not suffice."""
    if count <= len(THINGS):
        return draw.some(THINGS, count)
    pairs = [f"{colour} {thing}" for thing in THINGS for colour in COLOURS]
    if count > len(pairs):
        raise ArgumentError(f"size must be at most {len(pairs)}, got {count}. There are no more names.")
    return draw.some(pairs, count)


_ORDINARY = """
    about above across after again against all almost alone along also always among and another any around as ask at
    away back be because before began behind below beside between beyond both bring but by call can carry change clear
    close come could cut did do done down draw each early easy eight either end enough even ever every far fast few
    find first five follow for four free from full gave get give go good great had half hard has have he hear held her
    here high him his hold how if in into is it its just keep kind knew know large last late learn least leave left
    less let light like little live long look low made make many may mean might more most move much must name near
    never new next nine no none nor not nothing now of off often old on once one only open or other our out over own
    part past perhaps place plain put quick quiet quite rather read ready right round run said same say second see
    seem seen send set seven several she short should show side since six slow small so some soon stand start stay
    still such sure take ten than that the their them then there these they thing think third this those three through
    to together told too took toward turn twice two under until up upon use very wait walk was way we well went were
    what when where which while who whole why wide will with within without word work would write yet you young your
"""
ORDINARY: tuple[str, ...] = tuple(_ORDINARY.split())
"""Words that name no thing, to say something that means nothing."""
