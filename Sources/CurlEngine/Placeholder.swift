// Placeholder until the first file of CurlEngine lands.
