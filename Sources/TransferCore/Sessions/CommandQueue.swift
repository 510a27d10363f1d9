/// Commands that wait for the store. Each client's commands take effect in the order in which it sent them: while one
/// waits for details, those behind it wait too.
package struct CommandQueue: Hashable, Sendable {
  package struct Held: Hashable, Sendable {
    package var command: Command
    package var token: RequestToken
    /// Tasks whose details may still be on their way, the next one last. None is added while a command waits, for
    /// nothing leaves memory meanwhile.
    var missing: [TaskID]
  }

  private struct Line: Hashable, Sendable {
    var commands: [Held] = []
    /// How many of `commands` have been taken.
    var taken = 0
  }

  private var lines: [PeerID: Line] = [:]
  /// Whose first command waits for the details of this task.
  private var waiters: [TaskID: [PeerID]] = [:]

  package init() {}

  package var isEmpty: Bool { lines.isEmpty }

  package func holdsCommands(of peer: PeerID) -> Bool { lines[peer] != nil }

  mutating func append(_ held: Held) { lines[held.token.peer, default: Line()].commands.append(held) }

  /// What the client's first command waits for next.
  func firstMissing(of peer: PeerID) -> TaskID? {
    guard let line = lines[peer] else { return nil }
    return line.commands[line.taken].missing.last
  }

  /// That has come, or is not needed any more.
  mutating func dropFirstMissing(of peer: PeerID) {
    guard let taken = lines[peer]?.taken else { return }
    lines[peer]?.commands[taken].missing.removeLast()
  }

  mutating func takeFirst(of peer: PeerID) -> Held? {
    guard let line = lines[peer] else { return nil }
    lines[peer]?.taken += 1
    if line.taken + 1 == line.commands.count { lines[peer] = nil }
    return line.commands[line.taken]
  }

  /// Forgets the commands of a client that left, but for those that outlive it.
  mutating func forget(_ peer: PeerID) {
    guard let line = lines[peer] else { return }
    let kept = line.commands.dropFirst(line.taken).filter(\.command.outlivesItsClient)
    lines[peer] = kept.isEmpty ? nil : Line(commands: kept)
  }

  /// The first command of the client goes on when the details of this task have been loaded.
  mutating func wait(_ peer: PeerID, for id: TaskID) {
    if waiters[id]?.contains(peer) != true { waiters[id, default: []].append(peer) }
  }

  mutating func takeWaiters(for id: TaskID) -> [PeerID] { waiters.removeValue(forKey: id) ?? [] }

  // MARK: For tests

  /// Tasks whose details some first command waits for, in order.
  package var awaited: [TaskID] { waiters.keys.sorted() }

  /// In no order.
  package var commands: [Command] { lines.values.flatMap { $0.commands.dropFirst($0.taken) }.map(\.command) }
}
