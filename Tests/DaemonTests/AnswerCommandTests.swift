import Foundation
import LoopbackServer
import Testing

extension CommandTests {
  /// A person sees what is asked, is told how to answer, and answers; the password is no argument and is printed
  /// nowhere.
  @Test func whatIsAskedIsShownAndAnswered() throws {
    let password = SecretCases.secret
    let login = Login.digest(user: "ann", password: password)
    try Self.with({ login.isShown(by: $0) ? .text("hello") : login.challenge }) { home, server in
      let fetching = try home.start(["get", "--ask", server.url("/a")])
      try eventually("the task is there", is: { try home.run("show", "1").code == 0 })
      let asking = try home.waitForTask(1, "a question") { $0.state == "asking" }
      #expect(asking.reason?.contains("user and password") == true)
      let why = try home.run("why", "1")
      #expect(why.output.contains("user and password for \"loopback\" at \(server.baseURL)"), "\(why)")
      #expect(why.output.contains("`ferry answer 1 --user NAME`"), "\(why)")
      #expect(try home.run("show", "1").output.contains("ferry answer 1 --user NAME"))
      #expect(try home.run("list").output.contains("asking"))

      #expect(try home.run("answer", "1").code == 2)
      #expect(try home.run("answer", "1", "--proceed", "--cancel").code == 2)
      let noTerminal = try home.run("answer", "1", "--user", "ann")
      #expect(noTerminal.code == 2 && noTerminal.error.contains("FERRY_PASSWORD_FILE"), "\(noTerminal)")
      try home.write("wrong", "wrong\n")
      try home.write("password", "\(password)\n")
      let refused = try home.start(["answer", "1", "--user", "ann"], ["FERRY_PASSWORD_FILE": "\(home.work)/wrong"])
      #expect(try refused.finish().code == 0)
      try home.waitForTask(1, "another question") { $0.reason?.contains("1 refused") == true }
      let answer = ["answer", "1", "--user", "ann"]
      let taken = try home.start(answer, ["FERRY_PASSWORD_FILE": "\(home.work)/password"]).finish()
      #expect(taken.code == 0, "\(taken)")
      let fetched = try fetching.finish()
      #expect(fetched.code == 0 && fetched.output == "\(home.work)/a\n", "\(fetched)")
      #expect(fetched.error.contains("`ferry answer 1 --user NAME`"), "\(fetched)")
      let late = try home.run("answer", "1", "--proceed")
      #expect(late.code == 15, "\(late)")
      #expect(try home.run("answer", "99", "--proceed").code == 4)
      let files = try Tool.run("/bin/grep", ["-rlaF", password, home.root]).output
      #expect(files == "\(home.work)/password\n")
    }
  }
}
