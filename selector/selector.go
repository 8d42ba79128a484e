// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"sync"
)

// Labels are the labels of one object, which selectors match.
type Labels interface {
	// Get returns the value of a label, and whether the object has the label.
	Get(name string) (value string, ok bool)
}

// Map implements Labels with a Go map. Like any map, it is safe for concurrent reads.
type Map map[string]string

var _ Labels = Map(nil)

// Get returns the value of a label, and whether the label is present.
func (m Map) Get(name string) (string, bool) {
	value, ok := m[name]
	return value, ok
}

// invalidText is the canonical form of an invalid selector. Like the selector, it matches nothing.
const invalidText = "!all()"

var errZero = errors.New("selector: not made by Parse or a constructor")

// Selector is a condition on labels. Parse and the constructors return one.
//
// The zero Selector and a nil one are invalid: they match nothing, see Err. A Selector never
// changes and is safe for concurrent use.
type Selector struct {
	tree  tree  // empty if the selector is invalid
	first int32 // index of the first term to evaluate: tree.firstTerm
	text  string
	err   error

	// Computed on first use, because few selectors need them.
	idOnce       sync.Once
	id           string
	restrictOnce sync.Once
	restrictions []Restriction
}

// newSelector returns the selector with the tree, which no other selector may share.
func newSelector(t tree) *Selector {
	t.link(0, toFalse, toTrue)
	var buf [256]byte
	return &Selector{tree: t, first: t.firstTerm(), text: string(t.appendText(buf[:0]))}
}

func idOf(text string) string {
	sum := sha256.Sum224([]byte("s:" + text))
	return "s:" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// invalid returns an invalid selector with the error.
func invalid(err error) *Selector { return &Selector{err: err} }

// String returns the canonical form. Parse accepts it and returns an equal selector, unless
// constructors built a selector beyond MaxLength or MaxDepth. For an invalid selector, the form is
// "!all()", which matches nothing.
func (s *Selector) String() string {
	if s == nil || len(s.tree) == 0 {
		return invalidText
	}
	return s.text
}

// ID returns an identifier of the canonical form. It begins with "s:". The other characters are
// letters, digits, "_" and "-": the unpadded URL-safe base64 of the SHA-224 of "s:" and the
// canonical form. The ID is the same in every process and release.
func (s *Selector) ID() string {
	if s == nil || len(s.tree) == 0 {
		return idOf(invalidText)
	}
	s.idOnce.Do(func() { s.id = idOf(s.text) })
	return s.id
}

// Match reports whether the labels satisfy the selector. nil stands for an object without labels.
// An invalid selector matches nothing. Match allocates nothing.
//
// It is fastest with a *Compact. With a *Compact or a Map, it does not call Labels.Get.
func (s *Selector) Match(labels Labels) bool {
	if s == nil {
		return false
	}
	compact, ok := labels.(*Compact)
	if !ok || compact == nil {
		return len(s.tree) > 0 && s.tree.match(s.first, labels)
	}
	// The same as tree.match, for interned labels. It is inlined here, with the search and the
	// common operators, and without a slice of the values: so it is faster by a quarter.
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
				if value != n.value { // of has(), the value is the zero handle
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

// Err returns why the selector is invalid, or nil. A selector that Parse returns is always valid. A
// constructor returns an invalid selector for an illegal label name, and for a value with both
// kinds of quotes. And, Or and Not return an invalid selector if an operand is invalid. So it is
// enough to check the error of the final selector. An invalid selector matches nothing, so invalid
// input never makes a selector match more.
func (s *Selector) Err() error {
	if s == nil || (len(s.tree) == 0 && s.err == nil) {
		return errZero
	}
	return s.err
}
