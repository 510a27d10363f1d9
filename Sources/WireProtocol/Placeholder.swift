// Placeholder until the first file of WireProtocol lands.
