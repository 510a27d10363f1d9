// Placeholder until the first file of TransferCore lands.
