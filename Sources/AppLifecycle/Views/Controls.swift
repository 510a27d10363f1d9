#if !canImport(Darwin)
  public import Foundation

  // Views of the examples that every SwiftUI program begins with. Their closures are never called.

  /// A text. Never drawn.
  public struct Text: View, UndrawnView {
    /// The text as it is.
    public init(_ content: some StringProtocol) {}
    /// The text as it is.
    public init(verbatim content: String) {}
    /// A date.
    public init(_ date: Date, style: DateStyle) {}
    /// A value in a format.
    public init<F: FormatStyle>(_ input: F.FormatInput, format: F) where F.FormatOutput == String {}
  }

  extension Text {
    /// How a date is shown.
    public enum DateStyle: Sendable {
      /// The day.
      case date
      /// The time of the day.
      case time
      /// The distance from now.
      case relative
      /// The difference to now.
      case offset
      /// The time that is left.
      case timer
    }
  }

  /// What a button is for.
  public enum ButtonRole: Sendable {
    /// It removes something.
    case destructive
    /// It ends something.
    case cancel
  }

  /// A button. Never drawn.
  public struct Button<Label: View>: View, UndrawnView {
    /// With a label.
    public init(action: @escaping @MainActor () -> Void, @ViewBuilder label: () -> Label) {}
    /// With a role and a label.
    public init(role: ButtonRole?, action: @escaping @MainActor () -> Void, @ViewBuilder label: () -> Label) {}
    /// With a title.
    public init(_ title: some StringProtocol, action: @escaping @MainActor () -> Void) where Label == Text {}
    /// With a title and a role.
    public init(_ title: some StringProtocol, role: ButtonRole?, action: @escaping @MainActor () -> Void)
    where Label == Text {}
    /// With a title and a symbol.
    public init(_ title: some StringProtocol, systemImage: String, action: @escaping @MainActor () -> Void)
    where Label == Text {}
  }

  /// A picture. Never drawn.
  public struct Image: View, UndrawnView {
    /// A symbol of the system.
    public init(systemName: String) {}
    /// A picture of the program.
    public init(_ name: String) {}
  }

  extension Image {
    /// As it is: there is nothing to fit.
    public func resizable() -> Image { self }
  }

  /// A title with a symbol. Never drawn.
  public struct Label: View, UndrawnView {
    /// With a symbol of the system.
    public init(_ title: some StringProtocol, systemImage: String) {}
  }

  /// Views below each other. Never drawn.
  public struct VStack<Content: View>: View, UndrawnView {
    /// With these views.
    public init(alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content)
    {}
  }

  /// Views beside each other. Never drawn.
  public struct HStack<Content: View>: View, UndrawnView {
    /// With these views.
    public init(alignment: VerticalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content) {}
  }

  /// Views above each other. Never drawn.
  public struct ZStack<Content: View>: View, UndrawnView {
    /// With these views.
    public init(alignment: Alignment = .center, @ViewBuilder content: () -> Content) {}
  }

  /// Views below each other, made when they are needed. Never drawn.
  public struct LazyVStack<Content: View>: View, UndrawnView {
    /// With these views.
    public init(alignment: HorizontalAlignment = .center, spacing: CGFloat? = nil, @ViewBuilder content: () -> Content)
    {}
  }

  /// Views that are treated as one. Never drawn.
  public struct Group<Content: View>: View, UndrawnView {
    /// With these views.
    public init(@ViewBuilder content: () -> Content) {}
  }

  /// Controls of settings. Never drawn.
  public struct Form<Content: View>: View, UndrawnView {
    /// With these views.
    public init(@ViewBuilder content: () -> Content) {}
  }

  /// Views that are shown on top of each other. Never drawn.
  public struct NavigationStack<Content: View>: View, UndrawnView {
    /// With these views.
    public init(@ViewBuilder content: () -> Content) {}
  }

  /// The old form of ``NavigationStack``. Never drawn.
  public struct NavigationView<Content: View>: View, UndrawnView {
    /// With these views.
    public init(@ViewBuilder content: () -> Content) {}
  }

  /// A part of a list. Never drawn.
  public struct Section<Content: View>: View, UndrawnView {
    /// With these views.
    public init(@ViewBuilder content: () -> Content) {}
    /// With a title.
    public init(_ title: some StringProtocol, @ViewBuilder content: () -> Content) {}
    /// With a header.
    public init(@ViewBuilder content: () -> Content, @ViewBuilder header: () -> some View) {}
  }

  /// A part that scrolls. Never drawn.
  public struct ScrollView<Content: View>: View, UndrawnView {
    /// With these views.
    public init(_ axes: Axis.Set = .vertical, @ViewBuilder content: () -> Content) {}
  }

  /// Rows. Never drawn.
  public struct List<Content: View>: View, UndrawnView {
    /// With these rows.
    public init(@ViewBuilder content: () -> Content) {}
    /// A row for each element.
    public init<D: RandomAccessCollection>(_ data: D, @ViewBuilder rowContent: @escaping (D.Element) -> Content)
    where D.Element: Identifiable {}
    /// A row for each element.
    public init<D: RandomAccessCollection, ID: Hashable>(
      _ data: D, id: KeyPath<D.Element, ID>, @ViewBuilder rowContent: @escaping (D.Element) -> Content
    ) {}
  }

  /// A view for each element. Never drawn.
  public struct ForEach<Elements: RandomAccessCollection, Content: View>: View, UndrawnView {
    /// Elements that have an identity.
    public init(_ data: Elements, @ViewBuilder content: @escaping (Elements.Element) -> Content)
    where Elements.Element: Identifiable {}
    /// Elements that are told apart by a member.
    public init<ID: Hashable>(
      _ data: Elements, id: KeyPath<Elements.Element, ID>, @ViewBuilder content: @escaping (Elements.Element) -> Content
    ) {}
    /// Numbers.
    public init(_ data: Elements, @ViewBuilder content: @escaping (Elements.Element) -> Content)
    where Elements == Range<Int> {}
  }

  /// A way to another view. Never drawn.
  public struct NavigationLink: View, UndrawnView {
    /// With a title and its destination.
    public init(_ title: some StringProtocol, @ViewBuilder destination: () -> some View) {}
    /// With its destination and a label.
    public init(@ViewBuilder destination: () -> some View, @ViewBuilder label: () -> some View) {}
    /// With a value and a label.
    public init(value: (some Hashable)?, @ViewBuilder label: () -> some View) {}
  }

  /// How far something is. Never drawn.
  public struct ProgressView: View, UndrawnView {
    /// Without an end.
    public init() {}
    /// Without an end, with a title.
    public init(_ title: some StringProtocol) {}
    /// Up to a total.
    public init<V: BinaryFloatingPoint>(value: V?, total: V = 1) {}
    /// Up to a total, with a title.
    public init<V: BinaryFloatingPoint>(_ title: some StringProtocol, value: V?, total: V = 1) {}
    /// What a Progress tells.
    public init(_ progress: Progress) {}
  }

  /// A field for a text. Never drawn.
  public struct TextField: View, UndrawnView {
    /// With a title.
    public init(_ title: some StringProtocol, text: Binding<String>) {}
  }

  /// A switch. Never drawn.
  public struct Toggle: View, UndrawnView {
    /// With a title.
    public init(_ title: some StringProtocol, isOn: Binding<Bool>) {}
  }

  /// Room between views. Never drawn.
  public struct Spacer: View, UndrawnView {
    /// At least so much.
    public init(minLength: CGFloat? = nil) {}
  }

  /// A line between views. Never drawn.
  public struct Divider: View, UndrawnView {
    /// A line.
    public init() {}
  }
#endif
