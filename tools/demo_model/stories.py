"""Makes short stories for small children from hand-written plots: the text that the demo model learns.

story(rng) -> dict(topic, text). Each plot is a list of beats, each beat a list of ways to say it; one story picks one way
per beat, and the same hero, friend, thing and place run through it. usage: stories.py N SEED > stories.jsonl
"""

import json
import random
import sys

ANIMALS = "fox rabbit bear cat dog mouse owl frog duck lion elephant turtle squirrel pig horse goat monkey tiger penguin bee hedgehog deer wolf dragon robot snail bird kitten puppy whale".split()
HE, SHE = (
    "Tom Ben Max Sam Tim Leo Finn Otis Milo Hugo Pip Bruno Oscar Felix Gus Toby Rex Kit Duke Jack".split(),
    "Lily Mia Anna Lucy Rosie Ella Nora Zoe Ruby Daisy Clara Tilly Molly Wendy Pearl Hazel Ivy June Olive Sunny".split(),
)
ADJ = "little brave shy happy curious sleepy kind clever funny grumpy tiny gentle slow young quiet careful cheerful small".split()
THING = [
    "red ball",
    "blue kite",
    "yellow hat",
    "silver key",
    "wooden boat",
    "old lamp",
    "green book",
    "small drum",
    "shiny stone",
    "golden bell",
    "toy car",
    "warm blanket",
    "white feather",
    "red balloon",
    "blue cup",
    "striped scarf",
    "round mirror",
    "little flute",
    "paper star",
    "brown basket",
]
PLACE = [
    "the forest",
    "the garden",
    "the meadow",
    "a small village",
    "an old castle",
    "the valley",
    "the mountains",
    "the old mill",
    "the woods",
    "the park",
]
SPOT = [
    "under the big oak tree",
    "behind the barn",
    "near the river",
    "beside the old well",
    "at the top of the hill",
    "next to a large rock",
    "between the tall flowers",
    "by the stone bridge",
    "close to the pond",
    "at the end of the path",
]
FOOD = [
    "apple pie",
    "berry jam",
    "honey cake",
    "carrot soup",
    "warm bread",
    "plum tart",
    "nut cookies",
    "pear juice",
    "oat pancakes",
    "pumpkin soup",
]
SKILL = [
    ("swim", "swimming", "swam"),
    ("sing", "singing", "sang"),
    ("dance", "dancing", "danced"),
    ("climb", "climbing", "climbed"),
    ("read", "reading", "read"),
    ("whistle", "whistling", "whistled"),
    ("paint", "painting", "painted"),
    ("skate", "skating", "skated"),
]
COLOR = "red blue yellow orange purple pink white golden".split()
OPEN = [
    "Once upon a time, there was {a_adj} {kind} named {hero}. {He} lived in {place}.",
    "Once upon a time, {a_adj} {kind} named {hero} lived in {place}.",
    "In {place}, there lived {a_adj} {kind}. {His} name was {hero}.",
    "{hero} was {a_adj} {kind} who lived in {place}.",
    "There was once {a_adj} {kind} called {hero}. {His} home was in {place}.",
    "Long ago, in {place}, there was {a_adj} {kind} named {hero}.",
    "{hero} the {kind} lived in {place}. {He} was a very {adj} {kind}.",
]
END_HOME = [
    "Then they went home together, tired and happy.",
    "That night, {hero} slept very well.",
    "From that day on, {hero} and {friend} were best friends.",
    "{hero} smiled all the way home.",
    "And they played together every day after that.",
    "It was the best day of all.",
    "{hero} never forgot that day.",
    "And everyone in {place} was happy.",
]
DAY = [
    "One day,",
    "One sunny morning,",
    "One morning,",
    "One afternoon,",
    "One windy day,",
    "On a bright spring day,",
    "One cold morning,",
]
P = {}
P["lost"] = [
    [
        "{hero} had {a_thing}. {He} loved it very much.",
        "{His} favorite thing was {a_thing}. {He} took it everywhere.",
        "{He} had {a_thing}, and {he} played with it every day.",
    ],
    [
        "{day} the {thing} was gone.",
        "{day} {hero} could not find the {thing}.",
        "{day} {hero} looked for the {thing}, but it was not there.",
    ],
    [
        "{hero} looked under the bed. {He} looked behind the door. It was not there.",
        "{He} looked in every corner of the house, but the {thing} was nowhere.",
        "{He} looked high and low. No {thing}.",
    ],
    [
        "{hero} sat down and began to cry.",
        "{hero} felt very sad.",
        "A big tear ran down {his} nose.",
        '"Oh no," said {hero}. "Where can it be?"',
    ],
    [
        'Then {friend} the {fkind} came by. "Why are you sad?" asked {friend}.',
        '{friend} the {fkind} heard {him}. "What is wrong?" asked {friend}.',
        'Just then, {friend} the {fkind} walked past. "Can I help you?" asked {friend}.',
    ],
    [
        '"I lost my {thing}," said {hero}.',
        '"My {thing} is lost," said {hero} in a small voice.',
        '"I cannot find my {thing}," {hero} said.',
    ],
    [
        '"Let us look for it together," said {friend}.',
        '"Do not worry. I will help you," said {friend}.',
        '"Two can look better than one," said {friend}.',
    ],
    [
        "They looked for a long time. At last, they found the {thing} {spot}.",
        "They walked and walked. And there it was, {spot}!",
        "They asked the birds, and the birds told them to look {spot}. There was the {thing}!",
    ],
    [
        '"Thank you, {friend}!" said {hero}. {He} gave {fhim} a big hug.',
        '{hero} jumped for joy. "You are a good friend," {he} said.',
        "{hero} was so happy that {he} danced around the {thing}.",
    ],
]
P["friend"] = [
    [
        "{He} had a nice house, but {he} had no friends.",
        "{He} often played alone, and {he} felt lonely.",
        "{He} wished for a friend more than anything.",
    ],
    [
        "{day} {hero} saw a {fkind} {spot}.",
        "{day} a {fkind} came to {place} for the first time.",
        "{day} {hero} met a {fkind} {spot}.",
    ],
    [
        "{hero} wanted to say hello, but {he} was too shy.",
        "{hero} hid behind a bush and looked.",
        "{hero} did not know what to say.",
    ],
    [
        "The {fkind} had {a_thing}. The wind blew, and the {thing} flew away.",
        "The {fkind} dropped {a_thing}, and it rolled down the hill.",
        "The {fkind} was looking for {a_thing}.",
    ],
    [
        "{hero} ran as fast as {he} could and caught the {thing}.",
        "{hero} jumped up and caught it.",
        "{hero} saw the {thing} and picked it up.",
    ],
    [
        '"Here is your {thing}," said {hero} softly.',
        '"Is this yours?" asked {hero}.',
        '"I think this is your {thing}," said {hero}.',
    ],
    [
        '"Oh, thank you! My name is {friend}," said the {fkind}. "What is your name?"',
        '"Thank you! I am {friend}," said the {fkind} with a smile. "Who are you?"',
    ],
    [
        '"I am {hero}," said {hero}. "Do you want to play?"',
        '"My name is {hero}," {he} said. "Would you like to play with me?"',
    ],
    [
        '"Yes, please!" said {friend}. They played until the sun went down.',
        "{friend} said yes, and they played all day long.",
        "{friend} laughed and nodded. They played with the {thing} until it was dark.",
    ],
]
P["skill"] = [
    [
        "{He} wanted to {skill}, but {he} did not know how.",
        "More than anything, {hero} wanted to {skill}.",
        "All {his} friends could {skill}, but {hero} could not.",
    ],
    [
        "{day} {he} tried for the first time. It did not go well.",
        "{day} {hero} tried to {skill}, but it was too hard.",
        "{day} {he} tried and tried, but {he} could not do it.",
    ],
    [
        '"I will never learn it," said {hero} and sat down.',
        '"It is too hard for me," {hero} said with a sigh.',
        "{hero} wanted to give up.",
    ],
    [
        "{friend} the {fkind} sat down next to {him}.",
        "{friend} the {fkind} had seen everything.",
        "Old {friend} the {fkind} came to {him}.",
    ],
    [
        '"Nobody can {skill} on the first day," said {friend}. "Try a little every day."',
        '"I could not {skill} when I was small," said {friend}. "You only need time."',
        '"Take it slow," said {friend}. "I will show you."',
    ],
    [
        "So {hero} tried again the next day. And the day after that.",
        "So every morning, {hero} and {friend} went {skilling}.",
        "Every day {hero} got a little better.",
    ],
    [
        "After a week, {hero} was not afraid anymore.",
        "Soon it was not so hard anymore.",
        "Some days were good, and some days were bad, but {he} did not stop.",
    ],
    [
        "And then, one day, {hero} {skilled}! Everyone clapped.",
        "At last, {hero} could {skill}. {He} shouted with joy.",
        "One morning {hero} {skilled} better than ever before.",
    ],
    [
        '"You see," said {friend}, "you can do it."',
        '"Thank you for your help," said {hero}.',
        "{friend} was very proud of {him}.",
    ],
]
P["share"] = [
    [
        "{He} loved to eat {food}.",
        "{He} made the best {food} in {place}.",
        "Every week, {hero} made {food}.",
    ],
    [
        "{day} {he} made a lot of {food}. It smelled so good!",
        "{day} {hero} sat {spot} with a big plate of {food}.",
        "{day} {hero} took {his} {food} and sat down {spot}.",
    ],
    [
        "{friend} the {fkind} came along. {Fhe} was very hungry.",
        "Then {he} saw {friend} the {fkind}. {Fhe} had nothing to eat.",
        "{friend} the {fkind} could smell it from far away.",
    ],
    [
        '"May I have some?" asked {friend}.',
        '"That looks so good," said {friend}. "Can I have a little?"',
        '"I am so hungry," said {friend}.',
    ],
    [
        '"No," said {hero}. "It is all mine." {friend} looked sad and went away.',
        '{hero} wanted to keep it all. "No, it is mine," {he} said. {friend} walked away slowly.',
    ],
    [
        "{hero} began to eat, but the {food} did not taste good.",
        "But alone, the {food} was not so nice.",
        "{hero} looked at the {food}. {He} was not happy at all.",
    ],
    [
        '"I was not kind," thought {hero}. {He} ran after {friend}.',
        '"I am sorry," {hero} called. "Please come back!"',
        "So {he} got up and ran to find {friend}.",
    ],
    [
        '"I am sorry, {friend}. Let us eat together," said {hero}.',
        '"Half of it is for you," said {hero}.',
    ],
    [
        "They sat down and shared the {food}. Now it tasted wonderful.",
        "They ate and laughed, and not one bit was left.",
        '"It is much better with a friend," said {hero}.',
    ],
]
P["dark"] = [
    [
        "{He} was not afraid of anything, only of the dark.",
        "{He} had one little secret. {He} was afraid of the night.",
        "When the sun went down, {hero} always felt afraid.",
    ],
    [
        "One night, {he} heard a strange noise {spot}.",
        "One dark night, there was a sound outside. Tap, tap, tap.",
        "One night, {hero} woke up. Something was outside.",
    ],
    [
        "{hero} pulled the blanket over {his} head.",
        "{His} heart went boom, boom, boom.",
        '"What was that?" {he} whispered.',
    ],
    [
        "The noise came again. It sounded like someone crying.",
        'Then {he} heard a small voice. "Help," it said.',
        "Then it was quiet. Then it came again.",
    ],
    [
        "{hero} took a deep breath. {He} took {his} lamp and went outside.",
        '"I must be brave," said {hero}, and {he} opened the door.',
        "{He} was still afraid, but {he} got up and went to see.",
    ],
    [
        "There was {friend}, a small {fkind}. {Fhe} had lost {fhis} way.",
        "It was only {friend} the {fkind}. {Fhe} was lost and cold.",
        "{spot_cap} sat {friend} the {fkind}, all alone.",
    ],
    [
        '"Do not be afraid," said {hero}. "I will take you home."',
        '"Come in and get warm," said {hero}.',
        '"I am here now," said {hero}. "Take my hand."',
    ],
    [
        "They looked up. The sky was full of stars.",
        "The moon came out and made everything silver.",
        "Together they looked at the bright moon.",
    ],
    [
        '"The night is beautiful," said {hero}. {He} was not afraid anymore.',
        "And {hero} saw that the dark was not so bad.",
        "After that night, {hero} was never afraid of the dark again.",
    ],
]
P["seed"] = [
    [
        "{He} found a tiny seed {spot}.",
        "{day} a bird gave {him} a small seed.",
        "{day} {hero} saw a little seed on the ground.",
    ],
    [
        '"What will it be?" {he} asked. {He} put the seed into the ground.',
        "{hero} made a hole in the ground and put the seed in it.",
        "{He} planted it with great care.",
    ],
    [
        "Every day {he} gave it water. But nothing came.",
        "{He} watered it every morning. {He} waited and waited.",
        "A week went by, and nothing happened.",
    ],
    [
        '"It is just a bad seed," said {friend} the {fkind}.',
        '{friend} the {fkind} laughed. "Nothing will grow there," {fhe} said.',
        '"You must wait," said {friend} the {fkind}. "Good things take time."',
    ],
    [
        "But {hero} did not give up. {He} sang to the seed at night.",
        "{hero} waited. {He} was very patient.",
        "{hero} kept the birds away and gave it more water.",
    ],
    [
        "Then it rained, and the sun came out.",
        "One day, there was a small green leaf.",
        "And one morning, something green looked out of the ground.",
    ],
    [
        "It grew and grew. It was a {color} flower!",
        "Soon there was a tall plant with a big {color} flower.",
        "In summer, it had the most beautiful {color} flower in {place}.",
    ],
    [
        'Everyone came to see it. "How lovely!" they said.',
        "The bees came, and the birds came, and {friend} came too.",
        '"You were right to wait," said {friend}.',
    ],
    [
        '{hero} gave {friend} a new seed. "Now it is your turn," {he} said.',
        "{hero} was the happiest {kind} in the world.",
    ],
]
P["storm"] = [
    [
        "{hero} and {friend} the {fkind} were building a house {spot}.",
        "{day} {hero} and {friend} the {fkind} went for a long walk.",
        "{hero} and {friend} the {fkind} had a small boat.",
    ],
    [
        "Suddenly, the sky turned dark.",
        "Then big black clouds came over the hill.",
        "All at once, a cold wind began to blow.",
    ],
    [
        "Boom! went the thunder. The rain came down hard.",
        "It rained and rained. The thunder was very loud.",
        "The wind blew so hard that the trees bent down.",
    ],
    [
        '"I am scared!" cried {friend}.',
        '{friend} began to shake. "I want to go home," {fhe} said.',
        '"What shall we do?" asked {friend}.',
    ],
    [
        '"Hold on to me," said {hero}. "I know a place."',
        '"Stay close," said {hero}. "We will be fine."',
        '"Do not worry," said {hero}. "Follow me."',
    ],
    [
        "They ran to a small cave and sat down inside.",
        "They found a hollow tree and crept in.",
        "They ran to an old barn and closed the door.",
    ],
    [
        "{hero} told funny stories until {friend} laughed.",
        "They sang songs so that they could not hear the thunder.",
        "They shared a piece of bread and waited.",
    ],
    [
        "After a while, the rain stopped.",
        "At last, the storm was over, and the sun came out.",
        "Little by little, it became quiet.",
    ],
    [
        '"Look!" said {friend}. There was a rainbow over {place}.',
        'In the sky was a big rainbow. "How beautiful," said {hero}.',
        "Outside, the world was wet and bright and new.",
    ],
]
P["race"] = [
    [
        "{day} there was a big race in {place}.",
        "Every year there was a race in {place}.",
        "{day} all the animals came together for a race.",
    ],
    [
        "Everyone wanted to win. {hero} wanted to win too.",
        "The prize was {a_thing}.",
        "The winner would get {a_thing}.",
    ],
    [
        '"You are too slow," said {friend} the {fkind}. "I will win."',
        '{friend} the {fkind} was the fastest of all. "Nobody can beat me," {fhe} said.',
        '"Do not be sad when you lose," said {friend} the {fkind}.',
    ],
    [
        "One, two, three, go! They all ran.",
        "The bell rang, and off they went.",
        '"Ready, steady, go!" called the old owl.',
    ],
    [
        "{friend} was far ahead. But then {fhe} fell over a stone.",
        "{friend} ran so fast that {fhe} did not see a hole. {Fhe} fell in.",
        "Near the end, {friend} cried out. {Fhe} had hurt {fhis} foot.",
    ],
    [
        "{hero} could have won. But {he} stopped.",
        "{hero} saw it and stopped at once.",
        "Now {hero} was first. But {he} turned back.",
    ],
    [
        '"Are you all right?" asked {hero}. {He} helped {fhim} up.',
        '"Lean on me," said {hero}.',
        '"A friend is more important than a race," said {hero}.',
    ],
    [
        "They came to the end together, step by step.",
        "Side by side they walked over the line. They were the last.",
        "They did not win, but everyone clapped for them.",
    ],
    [
        '"I am sorry that I was mean," said {friend}. "You are the real winner."',
        '{friend} said, "Thank you. I will never laugh at you again."',
        "And the prize? They gave it to {hero}, for {he} had the biggest heart.",
    ],
]
P["gift"] = [
    [
        "It was the birthday of {friend} the {fkind}.",
        "{day} {hero} heard that {friend} the {fkind} had a birthday.",
        "Tomorrow was the birthday of {friend} the {fkind}.",
    ],
    [
        "{hero} wanted to give {fhim} something nice, but {he} had no money.",
        "{hero} did not know what to give {fhim}.",
        '"What can I give my friend?" {hero} thought.',
    ],
    [
        "{He} looked in {his} house. There was only {a_thing}.",
        "{He} had only {a_thing}. It was {his} favorite thing.",
        "{He} looked at {his} {thing} for a long time.",
    ],
    [
        "{hero} cleaned it until it was like new.",
        "{He} put it in a box with a {color} ribbon.",
        "{He} put it in {color} paper.",
    ],
    [
        "At the party, there were many big gifts.",
        "All the others came with big boxes. {hero} felt small.",
        '{hero} was shy. "It is not much," {he} said.',
    ],
    [
        "{friend} opened the box. {Fhis} eyes grew wide.",
        "{friend} opened it slowly.",
        "{friend} looked at the {thing} and did not say a word.",
    ],
    [
        '"But this is your {thing}. You love it!" said {friend}.',
        '"This is your favorite thing!" said {friend}.',
        '"You give me your own {thing}?" asked {friend}.',
    ],
    [
        '"Yes," said {hero}. "But I love my friend more."',
        '"It will be happy with you," said {hero}.',
        '"Now we can both play with it," said {hero}.',
    ],
    [
        "They ate {food} and played with the {thing} all evening.",
        "{friend} gave {him} a big hug. It was the best gift of all.",
    ],
]
P["repair"] = [
    ["{hero} liked to make things.", "{hero} could fix anything.", "{He} had a box full of tools."],
    [
        "{day} {friend} the {fkind} came with {a_thing}. It was broken.",
        '{day} {friend} the {fkind} knocked at the door. "My {thing} is broken," {fhe} said.',
        "{day} {hero} found {friend} the {fkind} {spot}. {Fhe} was holding a broken {thing}.",
    ],
    [
        '"Can you fix it?" asked {friend}.',
        '"It was a gift from my grandmother," said {friend} and cried.',
        '"Nobody can help me," said {friend}.',
    ],
    [
        '"Let me see," said {hero}. {He} looked at it from all sides.',
        '"I will try," said {hero}.',
        '"That is not easy," said {hero}. "But I have an idea."',
    ],
    [
        "First {he} used some glue. It did not hold.",
        "{He} worked all day. It was hard work.",
        "{He} tried it with a string. It did not work.",
    ],
    [
        'Then {friend} had an idea. "Take this," {fhe} said.',
        '"I can hold it for you," said {friend}.',
        '"We can do it together," said {friend}.',
    ],
    [
        "{friend} held it, and {hero} worked. Tap, tap, tap.",
        "They worked together until the moon came up.",
        "Little by little, it came together.",
    ],
    [
        "And then it was done. The {thing} was as good as new!",
        "At last the {thing} was whole again. It was even more beautiful than before.",
        '"There!" said {hero}. The {thing} was fixed.',
    ],
    [
        '"How can I thank you?" asked {friend}. "Stay for dinner," said {hero}. There was {food}.',
        '{friend} laughed with joy. "You are the best, {hero}!"',
    ],
]
P["wayhome"] = [
    [
        "{day} {hero} went for a walk. {He} saw a {color} butterfly and ran after it.",
        "{day} {hero} followed a {color} butterfly.",
        "{day} {hero} wanted to see what was behind the hill.",
    ],
    [
        "{He} ran and ran. When {he} stopped, {he} did not know where {he} was.",
        "{He} went on and on. Then {he} looked around. Everything was new.",
        "Soon {he} could not see {his} house anymore.",
    ],
    [
        '"I am lost," said {hero}.',
        '"Which way is home?" {he} asked. But nobody was there.',
        "{He} began to feel afraid.",
    ],
    [
        "{He} met {friend} the {fkind} {spot}.",
        "Then {he} saw {friend} the {fkind}, who sat {spot}.",
        "{spot_cap}, {he} met {friend} the {fkind}.",
    ],
    ['"Can you tell me the way home?" asked {hero}.', '"Please, I am lost," said {hero}.'],
    [
        '"What can you see from your house?" asked {friend}.',
        '"Think," said {friend}. "What is near your house?"',
    ],
    [
        '{hero} closed {his} eyes. "There is a river. And I can hear a bell."',
        '{hero} thought hard. "There is a mill, and it smells like bread."',
    ],
    [
        '"I know that place!" said {friend}. "Come with me."',
        '"Then we must go this way," said {friend}.',
    ],
    [
        "They walked over the bridge and through the tall grass. And there was the house!",
        "They went down the hill, and soon {hero} saw {his} own door.",
        "When the first star came out, they were there.",
    ],
    [
        '"Thank you, {friend}. Next time I will look where I go," said {hero}.',
        "{His} mother gave them both some {food}.",
        '"You can visit me every day," said {hero}.',
    ],
]
P["show"] = [
    [
        "{He} had a beautiful voice, but {he} sang only when nobody was there.",
        "{He} liked to sing, but only in the bath.",
        "{He} made up songs all day long, but {he} kept them to {himself}.",
    ],
    [
        "{day} there was a big show in {place}.",
        '{day} {friend} the {fkind} said, "There will be a show tonight."',
        "{day} everyone was getting ready for the summer party.",
    ],
    [
        '"You must sing for us!" said {friend} the {fkind}.',
        '"Will you sing, {hero}?" asked {friend} the {fkind}.',
    ],
    [
        '"Oh no, I cannot," said {hero}. "Everyone will look at me."',
        '{hero} turned {color}. "I am too shy," {he} said.',
    ],
    [
        '"Then look only at me," said {friend}. "I will stand in front."',
        '"I will stand next to you," said {friend}.',
        '"Close your eyes and think of home," said {friend}.',
    ],
    [
        "In the evening, the stage was full of lights.",
        "When it was {his} turn, {his} knees were shaking.",
    ],
    [
        "{hero} took a deep breath and began to sing.",
        "The first note was very soft. Then it grew and grew.",
    ],
    [
        "It was so quiet that you could hear the leaves. Everyone listened.",
        "{He} sang about {place} and about the stars.",
    ],
    [
        'Then they all clapped and called, "More, more!"',
        "When the song was over, everyone stood up and cheered.",
    ],
]
ART = lambda w: ("an " if w[0] in "aeiou" else "a ") + w


def story(r):
    he, fhe = r.random() < 0.5, r.random() < 0.5
    hero, friend = r.choice(HE if he else SHE), r.choice(HE if fhe else SHE)
    while friend == hero:
        friend = r.choice(HE if fhe else SHE)
    kind, fkind = r.sample(ANIMALS, 2)
    adj, thing, place, spot, skill = (
        r.choice(ADJ),
        r.choice(THING),
        r.choice(PLACE),
        r.choice(SPOT),
        r.choice(SKILL),
    )
    w = dict(
        hero=hero,
        friend=friend,
        kind=kind,
        fkind=fkind,
        adj=adj,
        a_adj=ART(adj),
        thing=thing,
        a_thing=ART(thing),
        place=place,
        spot=spot,
        spot_cap=spot[0].upper() + spot[1:],
        food=r.choice(FOOD),
        color=r.choice(COLOR),
        skill=skill[0],
        skilling=skill[1],
        skilled=skill[2],
        day="",
        he="he" if he else "she",
        He="He" if he else "She",
        his="his" if he else "her",
        His="His" if he else "Her",
        him="him" if he else "her",
        himself="himself" if he else "herself",
        fhe="he" if fhe else "she",
        Fhe="He" if fhe else "She",
        fhis="his" if fhe else "her",
        Fhis="His" if fhe else "Her",
        fhim="him" if fhe else "her",
    )
    name = r.choice(list(P))
    out = [r.choice(OPEN).format(**w)]
    for beat in P[name]:
        w["day"] = r.choice(DAY)
        out.append(r.choice(beat).format(**w))
    n = len(out)
    ends = r.sample(END_HOME, 1 if r.random() < 0.7 else 2)
    out += [e.format(**w) for e in ends]
    a, b = r.randrange(2, 4), n - r.randrange(2, 4)
    text = (
        " ".join(out[:a]) + "\n\n" + " ".join(out[a:b]) + "\n\n" + " ".join(out[b:])
        if r.random() < 0.8
        else " ".join(out)
    )
    w["plot"] = name
    return dict(
        topic={
            k: w[k]
            for k in (
                "hero",
                "kind",
                "adj",
                "thing",
                "place",
                "friend",
                "fkind",
                "food",
                "skill",
                "plot",
            )
        },
        text=text,
    )


if __name__ == "__main__":
    r = random.Random(int(sys.argv[2]))
    for _ in range(int(sys.argv[1])):
        print(json.dumps(story(r)))
