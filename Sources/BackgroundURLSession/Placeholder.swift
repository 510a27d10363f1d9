// Placeholder until the first file of BackgroundURLSession lands.
