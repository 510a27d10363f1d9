// Placeholder until the first file of LoopbackServer lands.
