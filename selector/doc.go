// SPDX-License-Identifier: Apache-2.0

// Package selector parses and evaluates label selectors: boolean expressions on the labels of an
// object.
//
// # The language
//
//	k == "v"   k != "v"   k in {"v", "w"}   k not in {"v", "w"}
//	k contains "v"   k starts with "v"   k ends with "v"
//	has(k)   all()   global()   !x   x && y   x || y   (x)
//
// "!" binds tighter than "&&", and "&&" tighter than "||". The empty text is all(). A label name
// has 1 to 512 characters of [A-Za-z0-9_./-]. It may be a word of the language, as in
// `in in {"x"}`. Values are in single or double quotes, without escapes. White space is space and
// tab.
//
// "!=" and "not in" match if the label is absent. The other operators on a label do not. "global()"
// matches the same objects as "all()", but it is a different selector with a different ID.
//
// # Usage
//
//	sel, err := selector.Parse(`role == "fe" && !has(debug)`)
//	if err != nil {
//		return err // *selector.ParseError: selector: pos 7: expected ...
//	}
//	ok := sel.Match(selector.Map{"role": "fe"})
//
// A selector has a canonical form, which String returns. It keeps the order of operands. It has no
// redundant spaces, parentheses, double negations or repeated set values. Selectors with the same
// canonical form have the same ID. Selectors with the same meaning can have different canonical
// forms. Parse of a canonical form returns a selector with that form.
//
// Terms iterates over the terms of a selector. MapTerms and PrefixLabels rewrite them. Restrictions
// returns the labels that a match needs, so that an index need not evaluate every selector for
// every object.
//
// Match takes any implementation of Labels. The package has two: Map, and Compact, which needs
// little memory for the labels of many objects and is the fastest to match.
//
// The constructors (Equal, And, Not, ...) build the same selectors without text. If an argument
// cannot be written in the language, such as a label name with a space, the constructor returns an
// invalid selector: see Selector.Err.
//
// # Concurrency
//
// A Selector and a Compact never change. They are safe for concurrent use. Both hold strings
// interned by package unique: equal strings share memory and compare by address. A string that
// nothing else in the process holds takes about 250 bytes, and 1 to 3 microseconds to intern.
//
// # Errors
//
// Parse returns a *ParseError. It refuses text longer than MaxLength and nesting deeper than
// MaxDepth. Apart from sorting the values of sets, it takes time linear in the length of the text,
// for any input.
package selector
