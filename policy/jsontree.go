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

// jsonKind is the kind of a JSON value, worded for error messages.
type jsonKind string

const (
	jsonObject jsonKind = "an object"
	jsonList   jsonKind = "a list"
	jsonString jsonKind = "a string"
	jsonNumber jsonKind = "a number"
	jsonBool   jsonKind = "true or false"
	jsonNull   jsonKind = "null"
)

// maxDepth is how deep JSON may nest. The resources need less than ten.
const maxDepth = 32

// jsonNode is a JSON value as it was written: members in order, numbers as text. A value with
// correct syntax that is invalid all the same has a fault, which the reader of the field reports.
// encoding/json does not suffice: it keeps the last of two equal names, matches "SELECTOR" to
// "selector", and ignores null.
type jsonNode struct {
	kind    jsonKind
	text    string // of a string (decoded) or a number (as written)
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

// parseJSON reads exactly one JSON value. Its errors give line and column. With an error it returns
// the value only if nothing but the encoding of texts is wrong.
func parseJSON(data []byte) (*jsonNode, error) {
	var whole json.RawMessage // checks the syntax up to the last byte
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
	n, err := readNode(dec, maxDepth)
	return n, cmp.Or(invalid, err)
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

// readNode reads the next value, which is known to be well-formed.
func readNode(dec *json.Decoder, depth int) (*jsonNode, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case json.Delim:
		if depth == 0 {
			return &jsonNode{fault: faultDeep}, skipNode(dec)
		}
		if v == '[' {
			return readList(dec, depth)
		}
		return readObject(dec, depth)
	case string:
		if isDamaged(v) {
			return &jsonNode{fault: faultDamaged}, nil
		}
		return &jsonNode{kind: jsonString, text: v}, nil
	case json.Number:
		return &jsonNode{kind: jsonNumber, text: v.String()}, nil
	case bool:
		return &jsonNode{kind: jsonBool, truth: v}, nil
	}
	return &jsonNode{kind: jsonNull}, nil
}

// skipNode reads on to the end of a list or object whose beginning has been read.
func skipNode(dec *json.Decoder) error {
	for depth := 1; depth > 0; {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		switch tok {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
	return nil
}

func readList(dec *json.Decoder, depth int) (*jsonNode, error) {
	n := &jsonNode{kind: jsonList}
	for dec.More() {
		item, err := readNode(dec, depth-1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err := dec.Token()
	return n, err
}

// readObject reads an object. The value of a member that is given twice, or has a damaged name, is
// a fault.
func readObject(dec *json.Decoder, depth int) (*jsonNode, error) {
	n := &jsonNode{kind: jsonObject}
	seen := map[string]int{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := tok.(string)
		value, err := readNode(dec, depth-1)
		if err != nil {
			return nil, err
		}
		if isDamaged(name) {
			value = &jsonNode{fault: faultDamaged}
		}
		if first, twice := seen[name]; twice {
			n.members[first].value = &jsonNode{fault: faultTwice}
			continue
		}
		seen[name] = len(n.members)
		n.members = append(n.members, jsonMember{name: name, value: value})
	}
	_, err := dec.Token()
	return n, err
}

// isDamaged reports whether a text contains U+FFFD. It replaces an escaped half of a surrogate
// pair, so two different texts could read the same.
func isDamaged(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }

// join appends a member's name to a path. A name with other characters than those of
// field names is quoted, so that a path stays readable.
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
