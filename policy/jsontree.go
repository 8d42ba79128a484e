// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
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

// jsonNode is a JSON value as it was written: members in order, numbers as text.
// encoding/json alone would not do: it lets the last of two equal names win, takes
// "SELECTOR" for "selector", and reads null as "leave it".
type jsonNode struct {
	kind    jsonKind
	text    string // of a string (decoded) or a number (as written)
	truth   bool   // of a bool
	members []jsonMember
	items   []*jsonNode
}

type jsonMember struct {
	name  string
	value *jsonNode
}

// parseJSON reads exactly one JSON value. Its errors give line and column, or the path.
func parseJSON(data []byte) (*jsonNode, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	var whole json.RawMessage // checks the syntax up to the last byte
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, syntaxError(data, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return readNode(dec, "", maxDepth)
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
func readNode(dec *json.Decoder, path string, depth int) (*jsonNode, error) {
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := tok.(type) {
	case json.Delim:
		if depth == 0 {
			return nil, fmt.Errorf("%snested too deep", at(path))
		}
		if v == '[' {
			return readList(dec, path, depth)
		}
		return readObject(dec, path, depth)
	case string:
		return &jsonNode{kind: jsonString, text: v}, checkEscapes(path, v)
	case json.Number:
		return &jsonNode{kind: jsonNumber, text: v.String()}, nil
	case bool:
		return &jsonNode{kind: jsonBool, truth: v}, nil
	}
	return &jsonNode{kind: jsonNull}, nil
}

func readList(dec *json.Decoder, path string, depth int) (*jsonNode, error) {
	n := &jsonNode{kind: jsonList}
	for dec.More() {
		item, err := readNode(dec, index(path, len(n.items)), depth-1)
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, err := dec.Token()
	return n, err
}

func readObject(dec *json.Decoder, path string, depth int) (*jsonNode, error) {
	n := &jsonNode{kind: jsonObject}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := tok.(string)
		if err := checkEscapes(path, name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, fmt.Errorf("%sgiven twice", at(join(path, name)))
		}
		seen[name] = true
		value, err := readNode(dec, join(path, name), depth-1)
		if err != nil {
			return nil, err
		}
		n.members = append(n.members, jsonMember{name: name, value: value})
	}
	_, err := dec.Token()
	return n, err
}

// checkEscapes refuses U+FFFD: it stands where half of a surrogate pair was escaped, so two
// different texts would read the same.
func checkEscapes(path, s string) error {
	if strings.ContainsRune(s, utf8.RuneError) {
		return fmt.Errorf("%sthe text is damaged (a replacement character or half of a surrogate pair)", at(path))
	}
	return nil
}

// at makes the path of a field the beginning of a message.
func at(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

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
