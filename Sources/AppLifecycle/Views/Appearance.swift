#if !canImport(Darwin)
  public import Foundation

  // Words for how views look. They compile and say nothing: nothing is drawn.

  /// How something is filled.
  public protocol ShapeStyle: Sendable {}

  /// A colour.
  public struct Color: ShapeStyle, View, UndrawnView {
    /// A colour of the program.
    public nonisolated init(_ name: String) {}
    nonisolated init() {}
  }

  extension ShapeStyle where Self == Color {
    /// Red.
    public static var red: Color { Color() }
    /// Orange.
    public static var orange: Color { Color() }
    /// Yellow.
    public static var yellow: Color { Color() }
    /// Green.
    public static var green: Color { Color() }
    /// Blue.
    public static var blue: Color { Color() }
    /// Grey.
    public static var gray: Color { Color() }
    /// Black.
    public static var black: Color { Color() }
    /// White.
    public static var white: Color { Color() }
    /// The colour of most texts.
    public static var primary: Color { Color() }
    /// The colour of lesser texts.
    public static var secondary: Color { Color() }
    /// The colour of what can be pressed.
    public static var accentColor: Color { Color() }
  }

  /// A font.
  public struct Font: Sendable {
    /// The largest title.
    public static let largeTitle = Font()
    /// A title.
    public static let title = Font()
    /// A lesser title.
    public static let title2 = Font()
    /// The least title.
    public static let title3 = Font()
    /// The head of a paragraph.
    public static let headline = Font()
    /// Below a headline.
    public static let subheadline = Font()
    /// Most texts.
    public static let body = Font()
    /// A note.
    public static let footnote = Font()
    /// Below a picture.
    public static let caption = Font()
    /// A lesser caption.
    public static let caption2 = Font()

    /// The system's font in that size, in points.
    public static func system(size: CGFloat) -> Font { Font() }
    /// With digits of one width.
    public func monospacedDigit() -> Font { self }
    /// Bold.
    public func bold() -> Font { self }
  }

  /// Where views in a column stand.
  public enum HorizontalAlignment: Sendable {
    /// At the beginning of a line.
    case leading
    /// In the middle.
    case center
    /// At the end of a line.
    case trailing
  }

  /// Where views in a row stand.
  public enum VerticalAlignment: Sendable {
    /// At the top.
    case top
    /// In the middle.
    case center
    /// At the bottom.
    case bottom
    /// On the line of the first text.
    case firstTextBaseline
  }

  /// Where a view stands in another.
  public enum Alignment: Sendable {
    /// In the middle.
    case center
    /// At the beginning of a line.
    case leading
    /// At the end of a line.
    case trailing
    /// At the top.
    case top
    /// At the bottom.
    case bottom
    /// At the top, at the beginning of a line.
    case topLeading
    /// At the bottom, at the end of a line.
    case bottomTrailing
  }

  /// A direction.
  public enum Axis: Int, Sendable {
    /// From side to side.
    case horizontal
    /// Up and down.
    case vertical

    /// Directions.
    public struct Set: OptionSet, Sendable {
      /// The bits.
      public let rawValue: Int
      /// The directions of these bits.
      public init(rawValue: Int) { self.rawValue = rawValue }
      /// From side to side.
      public static let horizontal = Self(rawValue: 1)
      /// Up and down.
      public static let vertical = Self(rawValue: 2)
    }
  }

  /// A side.
  public enum Edge: Int, Sendable {
    /// Above.
    case top
    /// At the beginning of a line.
    case leading
    /// Below.
    case bottom
    /// At the end of a line.
    case trailing

    /// Sides.
    public struct Set: OptionSet, Sendable {
      /// The bits.
      public let rawValue: Int
      /// The sides of these bits.
      public init(rawValue: Int) { self.rawValue = rawValue }
      /// Above.
      public static let top = Self(rawValue: 1)
      /// At the beginning of a line.
      public static let leading = Self(rawValue: 2)
      /// Below.
      public static let bottom = Self(rawValue: 4)
      /// At the end of a line.
      public static let trailing = Self(rawValue: 8)
      /// Both sides of a line.
      public static let horizontal: Self = [.leading, .trailing]
      /// Above and below.
      public static let vertical: Self = [.top, .bottom]
      /// All.
      public static let all: Self = [.horizontal, .vertical]
    }
  }
#endif
