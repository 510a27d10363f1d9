extension Core {
  /// Why an app is, or is not, launched now, in words. Computed, never stored.
  package func launchReason(_ cell: AppCell, at now: ClockReading) -> String {
    guard let record = cell.record else { return "It is not registered, and is never launched." }
    if record.isForceQuit {
      return "A person ended it; it is not launched until a person opens it (`ferry app front`)."
    }
    if let current = cell.current {
      switch current.phase {
      case .searching: return "The daemon was restarted, and looks for its process."
      // A launch is on record before its process begins.
      case .starting where isStuck:
        return "It is started when the daemon can store its state again: \(degraded ?? "")"
      case .starting: return "It is being started."
      case .running:
        let left = current.deadline.map { "; its grant ends in \(($0 - now.boot).rounded)" } ?? ""
        return "It has been launched (\(current.number)) and collects\(left)."
      case .ending: return "Its process is being ended."
      case .exited: return "Its process has just ended."
      }
    }
    let waiting = sessions.order.filter { id in
      sessions[id].map { $0.record.key.app == cell.id && !$0.deliveries.isEmpty } ?? false
    }
    guard let first = waiting.first(where: { isWaitingForLaunch($0) }), let cells = sessions[first] else {
      return waiting.isEmpty ? "Nothing waits for it." : "Its results are being collected, or tasks are unfinished."
    }
    let what = "Results of its session \"\(cells.record.key.identifier)\" wait"
    if cell.isForeground { return "\(what); it runs in the foreground and is not launched." }
    if let opensAt = [cell.opensAt, apps.opensAt].compactMap({ $0 }).max(), opensAt > now.boot {
      return "\(what); the next launch may come in \((opensAt - now.boot).rounded)."
    }
    return "\(what); it is about to be launched."
  }
}

extension Duration {
  /// Whole seconds, rounded up; the delay between launches may be hours.
  fileprivate var rounded: String {
    let seconds = max(0, (millisecondsClamped + 999) / 1000)
    if seconds < 60 { return "\(seconds) s" }
    return seconds < 3600 ? "\(seconds / 60) min \(seconds % 60) s" : "\(seconds / 3600) h \(seconds / 60 % 60) min"
  }
}
