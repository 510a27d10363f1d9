// Placeholder until the first file of TransferStore lands.
