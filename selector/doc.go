// SPDX-License-Identifier: Apache-2.0

// Package selector is the language in which policy picks objects by their labels:
// text in, an immutable Selector out that prints, compares and matches.
//
// # The language
//
//	k == "v"   k != "v"   k in {"v", "w"}   k not in {"v", "w"}
//	k contains "v"   k starts with "v"   k ends with "v"
//	has(k)   all()   global()   !x   x && y   x || y   (x)
//
// "!" binds tighter than "&&", and that tighter than "||". The empty text is all(). Label names
// are 1 to 512 of [A-Za-z0-9_./-]; a name may be a word of the language, as in `in in {"x"}`.
// Values stand in '..' or ".." without escapes. White space is space and tab.
//
// "!=" and "not in" match where the label is absent; all other terms do not.
// "global()" matches like "all()", but is a different selector with a different ID.
//
// # Usage
//
//	sel, err := selector.Parse(`role == "fe" && !has(debug)`)
//	if err != nil {
//		return err // *selector.ParseError: selector: pos 7: expected ...
//	}
//	ok := sel.Match(selector.Map{"role": "fe"})
//
// Selectors with one meaning can still be written in several ways; those that
// print the same String have the same ID. The canonical form is a fixed point: parsing and
// printing it again changes nothing. It keeps the order of operands and drops
// spaces, redundant parentheses, double negation and repeated set values.
//
// Terms walks over the terms of a selector; MapTerms and PrefixLabels rewrite them. Restrictions
// says what a match implies for single labels, so that an index need not try every selector on
// every object.
//
// Match takes any Labels. Two are ready: Map, and Compact, which keeps the labels of many objects
// in little memory and is fastest to match.
//
// The constructors (Equal, And, Not, ...) build the same selectors without text. One that is
// given something the language cannot say returns an invalid selector, see Selector.Err.
//
// # Concurrency
//
// A Selector never changes and can be shared between goroutines freely, and so can a Compact. Both
// hold their strings interned by package unique. That makes equal ones cheap, in time and memory,
// and a string that nobody else has dearer: it takes some 250 bytes, and 1 to 3 microseconds to
// make.
//
// # Errors
//
// Parse returns a *ParseError. It refuses text over MaxLength and nesting over MaxDepth and takes
// time linear in the length of the text (sorting the values of a set aside), whatever the bytes.
package selector
