"""The twenty texts on which engines are compared: prose, code, questions in the chat format."""

TEXTS = [
    "The capital of France is Paris, and the river that runs through it is the Seine.",
    "Once upon a time, there was a little girl who lived in a village near the forest.",
    "Water boils at 100 degrees Celsius at sea level, but at lower temperatures on a mountain.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    "To make a good cup of tea, first warm the pot, then add one spoon of leaves per person.",
    "The mitochondria is the powerhouse of the cell because it produces most of the energy.",
    "In 1969 two people walked on the Moon while a third stayed in orbit above them.",
    "A prime number has exactly two divisors: one and itself. The first few are 2, 3, 5 and 7.",
    "She opened the letter slowly, read it twice, and then put it back without a word.",
    "SELECT name, age FROM users WHERE age > 30 ORDER BY name;",
    "<|im_start|>user\nWhat is 7 + 5?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "Dear Sir or Madam, I am writing to complain about the delay of my order.",
    "The quick brown fox jumps over the lazy dog, and the dog does not even look up.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "If it rains tomorrow we will stay at home; if not, we will go to the lake.",
    "Music has no borders: a melody from one country can make people dance in another.",
    "The committee met on Monday to discuss the budget for the coming year.",
    "import numpy as np\n\nx = np.linspace(0, 1, 100)\ny = np.sin(x)\n",
    "Ice floats on water because it is less dense than the liquid.",
]
