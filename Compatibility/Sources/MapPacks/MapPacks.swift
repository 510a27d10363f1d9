// A UIKit app delegate that downloads packs of maps and is launched to collect them.
//
//   MapPacks              (an app has no arguments; the packs' addresses are in packs.txt in its caches folder)
//
// Its author expects: the order didFinishLaunching, handleEvents, delegate messages in the order in which they were
// queued, urlSessionDidFinishEvents; the stored handler is called on the main queue; a launched app is in the
// background; after the handler it is left alone.

import AppLifecycle

@main
class AppDelegate: UIResponder, UIApplicationDelegate {
  var window: UIWindow?
  var backgroundCompletionHandler: (() -> Void)?

  func application(
    _ application: UIApplication, didFinishLaunchingWithOptions launchOptions: [UIApplication.LaunchOptionsKey: Any]?
  ) -> Bool {
    Packs.shared.note("didFinishLaunching \(application.applicationState == .background ? "background" : "foreground")")
    return true
  }

  func applicationDidBecomeActive(_ application: UIApplication) {
    Packs.shared.note("didBecomeActive")
    Packs.shared.downloadAll()
  }

  func applicationWillTerminate(_ application: UIApplication) {
    Packs.shared.note("willTerminate")
  }

  func application(
    _ application: UIApplication, handleEventsForBackgroundURLSession identifier: String,
    completionHandler: @escaping () -> Void
  ) {
    Packs.shared.note("handleEvents \(identifier)")
    backgroundCompletionHandler = completionHandler
    Packs.shared.connect()
  }
}

@MainActor
final class Packs: NSObject, @preconcurrency URLSessionDownloadDelegate {
  static let shared = Packs()

  private let folder = FileManager.default.urls(for: .cachesDirectory, in: .userDomainMask)[0]
  private lazy var session: URLSession = {
    let configuration = URLSessionConfiguration.background(withIdentifier: "com.example.maps")
    configuration.sessionSendsLaunchEvents = true
    return URLSession(configuration: configuration, delegate: self, delegateQueue: .main)
  }()

  func connect() { _ = session }

  func note(_ line: String) {
    let file = folder.appendingPathComponent("diary.txt")
    let text = (try? String(contentsOf: file, encoding: .utf8)) ?? ""
    try? (text + line + "\n").write(to: file, atomically: true, encoding: .utf8)
  }

  func downloadAll() {
    let text = (try? String(contentsOf: folder.appendingPathComponent("packs.txt"), encoding: .utf8)) ?? ""
    for line in text.split(separator: "\n") {
      guard let url = URL(string: String(line)) else { continue }
      let task = session.downloadTask(with: url)
      task.taskDescription = url.lastPathComponent
      task.resume()
      note("asked for \(url.lastPathComponent)")
    }
  }

  func urlSession(
    _ session: URLSession, downloadTask: URLSessionDownloadTask, didFinishDownloadingTo location: URL
  ) {
    let name = downloadTask.taskDescription ?? "pack"
    try? FileManager.default.moveItem(at: location, to: folder.appendingPathComponent(name))
    note("file \(name)")
  }

  func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
    note("complete \(task.taskDescription ?? "-") \((error as? URLError)?.code.rawValue ?? 0)")
  }

  func urlSessionDidFinishEvents(forBackgroundURLSession session: URLSession) {
    Task { @MainActor in
      guard let delegate = UIApplication.shared.delegate as? AppDelegate,
        let handler = delegate.backgroundCompletionHandler
      else { return }
      delegate.backgroundCompletionHandler = nil
      self.note("handler")
      handler()
    }
  }
}
