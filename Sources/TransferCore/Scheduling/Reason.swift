extension Core {
  /// Why a task does not run now, in words; nil when it runs or has ended well. Computed, never stored.
  package func reason(_ cell: TaskCell, _ held: TaskDetails?, at now: ClockReading) -> String? {
    switch cell.entry.state {
    case .running: return nil
    case .finalizing: return held?.progress.failure?.detail
    case .finished(.succeeded): return nil
    case .finished: return held?.progress.failure?.detail
    case .suspended: return "paused; `resume` starts it"
    case .asking: return askingReason(cell, held)
    case .waiting: return waitingReason(cell, held, now)
    }
  }

  private func waitingReason(_ cell: TaskCell, _ held: TaskDetails?, _ now: ClockReading) -> String {
    if isStuck, let degraded { return "the daemon cannot store its state: \(degraded)" }
    if cell.entry.kind == .data, sessions[cell.entry.session]?.attached == nil { return "its client is not connected" }
    let unmet = unmet(cell, held)
    if let first = unmet.first {
      return unmet.count == 1 ? first.cause : unmet.map(\.cause).joined(separator: "; ")
    }
    let lane = admission.heldUntil(cell.lane).flatMap { $0 > now.boot ? $0 : nil }
    let own = cell.wakeAt.flatMap { $0 > now.boot ? $0 : nil }
    if let until = [lane, own].compactMap({ $0 }).max() {
      let wait = "next try in \(Self.words(until - now.boot))"
      if let failure = held?.progress.failure { return "\(failure.detail) (\(wait))" }
      return own == nil ? "the host is given a rest; \(wait)" : wait
    }
    if admission.isFull(cell.lane) {
      return
        "\(admission.runningInLane(cell.lane)) transfers of this session to this host are running, the most allowed"
    }
    if admission.running >= Limits.running { return "\(Limits.running) transfers are running, the most allowed" }
    return "about to start"
  }

  private static func words(_ duration: Duration) -> String {
    let seconds = max(1, (duration.millisecondsClamped + 999) / 1000)
    if seconds < 120 { return "\(seconds) s" }
    if seconds < 7200 { return "\(seconds / 60) min" }
    return "\(seconds / 3600) h"
  }
}
