import CLinux

/// What a process that has nothing to do need not hold.
package enum IdleMemory {
  /// Gives the heap's free pages back to the system, and the pages of the program's own code, which come back from its
  /// file one by one when they are needed. Takes well under a millisecond, and as much again afterwards: for moments of
  /// rest.
  package static func giveBack() { clinux_give_memory_back() }
}
