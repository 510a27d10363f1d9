import Testing

@testable import TransferSimulation
