// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"sync"
)

// Labels is what a selector looks at: the labels of one object.
type Labels interface {
	// Get returns the value of a label, and whether the object has it at all.
	Get(name string) (value string, ok bool)
}

// Map is the plainest Labels. Like any map it may be read by several goroutines as long as none
// changes it.
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
	tree  tree  // empty where the selector is invalid
	first int32 // where evaluation begins: tree.firstTerm
	text  string
	err   error

	// What not everybody asks for is made when it is first asked for.
	idOnce   sync.Once
	id       string
	hintOnce sync.Once
	hints    []Restriction
}

// newSelector takes a tree that nobody else has.
func newSelector(t tree) *Selector {
	t.link(0, toFalse, toTrue)
	var buf [256]byte
	return &Selector{tree: t, first: t.firstTerm(), text: string(t.appendText(buf[:0]))}
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
	if s == nil || len(s.tree) == 0 {
		return nothing
	}
	return s.text
}

// ID returns a short name of the canonical form, made of [A-Za-z0-9_-] after "s:". It is the same
// in every process and release: "s:" and the unpadded URL-safe base64 of the SHA-224 of "s:" and
// the canonical form.
func (s *Selector) ID() string {
	if s == nil || len(s.tree) == 0 {
		return idOf(nothing)
	}
	s.idOnce.Do(func() { s.id = idOf(s.text) })
	return s.id
}

// Match reports whether the labels satisfy the selector; nil stands for an object without
// labels. It allocates nothing. An invalid selector matches nothing.
//
// It is fastest on a *Compact. Both ready types spare it calls through the interface.
func (s *Selector) Match(labels Labels) bool {
	if s == nil {
		return false
	}
	compact, ok := labels.(*Compact)
	if !ok || compact == nil {
		return len(s.tree) > 0 && s.tree.match(s.first, labels)
	}
	// The same as tree.match, for labels that are interned as the tree is. Speed is why it stands
	// here, searches and decides what it can without a call, and does not slice the values off:
	// that is worth a quarter.
	t, i := s.tree, s.first
	if len(t) == 0 {
		return false
	}
	all := compact.strings
	count := int(uint(len(all)) / 2)
	names := all[:count]
next:
	for i >= 0 {
		n := &t[i]
		for at, name := range names {
			if name != n.label {
				continue
			}
			i = n.jump[0]
			value := all[count+at]
			if n.op == OpEqual {
				if value == n.value {
					i = n.jump[1]
				}
			} else if n.op == OpHas || n.op == OpNotEqual {
				if value != n.value { // has() has none
					i = n.jump[1]
				}
			} else if n.matchHandle(value) {
				i = n.jump[1]
			}
			continue next
		}
		i = n.jump[0]
		if n.matchAbsent() {
			i = n.jump[1]
		}
	}
	return i == toTrue
}

// Err returns why the selector is invalid, or nil. What Parse returns without an error is always
// valid. A constructor that is given an illegal label name, or a value that has both kinds of
// quotes and so cannot be written, returns an invalid selector; so does every combination
// with an invalid selector, also Not and Or. Invalidity can thus never widen a match, and one
// look at the final result is enough.
func (s *Selector) Err() error {
	if s == nil || (len(s.tree) == 0 && s.err == nil) {
		return errZero
	}
	return s.err
}
