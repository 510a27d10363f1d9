// Placeholder until the first file of TransferDaemon lands.
