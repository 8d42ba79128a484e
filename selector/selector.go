// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
)

// Labels is what a selector looks at: the labels of one object.
type Labels interface {
	// Get returns the value of a label, and whether the object has it at all.
	Get(name string) (value string, ok bool)
}

// Map is the plainest Labels. Like any map it may be read by several goroutines as long as none changes it.
type Map map[string]string

var _ Labels = Map(nil)

// Get returns the value of a label, and whether it is there.
func (m Map) Get(name string) (string, bool) {
	value, ok := m[name]
	return value, ok
}

// nothing is the canonical form that an invalid selector shows: it too matches nothing.
const nothing = "!all()"

var errZero = errors.New("selector: not made by Parse or a constructor")

// Selector is a condition on labels. Get one from Parse or a constructor.
//
// The zero Selector and a nil one are invalid: they match nothing, see Err. A Selector never
// changes; it is safe for concurrent use.
type Selector struct {
	root *node // nil where the selector is invalid
	text string
	id   string
	err  error
}

// newSelector takes a tree that nobody else will change.
func newSelector(root *node) *Selector {
	text := string(root.appendText(nil))
	return &Selector{root: root, text: text, id: idOf(text)}
}

func idOf(text string) string {
	sum := sha256.Sum224([]byte("s:" + text))
	return "s:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// invalid returns a selector that stands for something that could not be built.
func invalid(err error) *Selector { return &Selector{err: err} }

// String returns the canonical form. Parse reads it back to an equal selector, unless one
// built by constructors has outgrown MaxLength or MaxDepth. For an invalid selector it is
// "!all()", which matches nothing.
func (s *Selector) String() string {
	if s == nil || s.root == nil {
		return nothing
	}
	return s.text
}

// ID returns a short name of the canonical form, made of [A-Za-z0-9_-] after "s:". It is the same in every
// process and release: "s:" and the unpadded URL-safe base64 of the SHA-224 of "s:" and the
// canonical form.
func (s *Selector) ID() string {
	if s == nil || s.root == nil {
		return idOf(nothing)
	}
	return s.id
}

// Match reports whether the labels satisfy the selector. It allocates nothing. An
// invalid selector matches nothing.
func (s *Selector) Match(labels Labels) bool {
	if s == nil || s.root == nil {
		return false
	}
	return s.root.match(labels)
}

// Err returns why the selector is invalid, or nil. What Parse returns without an error is always
// valid. A constructor that is given an illegal label name, or a value that has both kinds of
// quotes and so cannot be written, returns an invalid selector; so does every combination
// with an invalid selector, also Not and Or. Invalidity can thus never widen a match, and one
// look at the final result is enough.
func (s *Selector) Err() error {
	if s == nil || (s.root == nil && s.err == nil) {
		return errZero
	}
	return s.err
}
