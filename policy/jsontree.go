// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// jsonKind is the kind of a JSON value, as in error messages.
type jsonKind string

const (
	jsonObject jsonKind = "an object"
	jsonList   jsonKind = "a list"
	jsonString jsonKind = "a string"
	jsonNumber jsonKind = "a number"
	jsonBool   jsonKind = "true or false"
	jsonNull   jsonKind = "null"
)

// maxDepth is the maximum nesting of JSON. Resources need less than ten.
const maxDepth = 32

// jsonNode is a JSON value without loss: members in order, numbers as text. A value with correct
// syntax that is invalid nevertheless has a fault, which the field's decoder reports. The package
// encoding/json is not strict enough: it uses the last of duplicate members, matches "SELECTOR" to
// "selector", and ignores null.
type jsonNode struct {
	kind    jsonKind
	text    string // of a string (decoded) or a number (as in the text)
	truth   bool   // of a bool
	members []jsonMember
	items   []*jsonNode
	fault   string // the error of a value without a kind
}

const (
	faultTwice   = "given twice"
	faultDeep    = "nested too deep"
	faultDamaged = "the text is damaged (a replacement character or half of a surrogate pair)"
)

type jsonMember struct {
	name  string
	value *jsonNode
}

// parseJSON parses exactly one JSON value. Its errors have line and column. With an error, it
// returns the value only if the syntax is correct and the text is not valid UTF-8.
func parseJSON(data []byte) (*jsonNode, error) {
	var whole json.RawMessage // checks the syntax of the whole text
	syntax := json.Unmarshal(data, &whole)
	var invalid error
	if !utf8.Valid(data) {
		invalid = errors.New("the text is not valid UTF-8")
	}
	if syntax != nil {
		return nil, cmp.Or(invalid, syntaxError(data, syntax))
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	r := treeReader{dec: dec}
	n := r.node(maxDepth)
	return n, cmp.Or(invalid, r.err)
}

func syntaxError(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	before := data[:min(max(int(syntax.Offset)-1, 0), len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("line %d, column %d: %s", line, column, syntax)
}

// treeReader parses a text with correct syntax.
type treeReader struct {
	dec *json.Decoder
	err error
}

func (r *treeReader) token() json.Token {
	tok, err := r.dec.Token()
	r.err = cmp.Or(r.err, err)
	return tok
}

func (r *treeReader) more() bool { return r.err == nil && r.dec.More() }

// node parses the next value. Lists and objects deeper than depth become a fault.
func (r *treeReader) node(depth int) *jsonNode {
	switch v := r.token().(type) {
	case json.Delim:
		n := &jsonNode{kind: jsonObject}
		if v == '[' {
			n.kind = jsonList
		}
		for seen := map[string]int{}; r.more(); {
			if n.kind == jsonList {
				n.items = append(n.items, r.node(depth-1))
			} else {
				r.member(n, seen, depth-1)
			}
		}
		if r.token(); depth <= 0 {
			return &jsonNode{fault: faultDeep}
		}
		return n
	case string:
		if isDamaged(v) {
			return &jsonNode{fault: faultDamaged}
		}
		return &jsonNode{kind: jsonString, text: v}
	case json.Number:
		return &jsonNode{kind: jsonNumber, text: v.String()}
	case bool:
		return &jsonNode{kind: jsonBool, truth: v}
	}
	return &jsonNode{kind: jsonNull}
}

// member parses a member of an object. A duplicate member, or one with an invalid name, becomes a
// fault.
func (r *treeReader) member(n *jsonNode, seen map[string]int, depth int) {
	name, _ := r.token().(string)
	value := r.node(depth)
	if isDamaged(name) {
		value = &jsonNode{fault: faultDamaged}
	}
	if first, twice := seen[name]; twice {
		n.members[first].value = &jsonNode{fault: faultTwice}
		return
	}
	seen[name] = len(n.members)
	n.members = append(n.members, jsonMember{name: name, value: value})
}

// isDamaged reports whether a text contains U+FFFD. The decoder writes it for an invalid surrogate
// escape, so that two different texts can have the same value.
func isDamaged(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }

// join appends the name of a member to a path. A name with characters that field names do not have
// is quoted.
func join(path, name string) string {
	if !onlyOf(name, "") || name == "" {
		return fmt.Sprintf("%s[%q]", path, clip(name))
	}
	if path == "" {
		return clip(name)
	}
	return path + "." + clip(name)
}

// index appends the index of an item to a path.
func index(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
