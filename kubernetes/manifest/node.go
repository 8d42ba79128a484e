// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of one document, far above what is real: they stop aliases that refer to aliases, and
// nesting, from costing the process.
const (
	maxDepth   = 100
	maxAliased = 1 << 18 // values that aliases stand for, counted each time
)

var errTwice = errors.New("the key is given twice")

// parse reads the one document of a chunk. It returns nil for a document without content.
func parse(c chunk) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(c.text))
	var document, more yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return nil, errors.New("two documents without a --- between them")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	return root, nil
}

// nodeError is something wrong with a node of a document.
type nodeError struct {
	field string
	line  int
	err   error
}

// reader turns nodes into the values that encoding/json knows.
type reader struct {
	inAlias int // aliases that the present node is inside of
	aliased int
}

// value returns the value of a node: nil, bool, int64, uint64, float64, string, []any or map[string]any.
func (r *reader) value(n *yaml.Node, path string, depth int) (any, *nodeError) {
	fail := func(format string, args ...any) (any, *nodeError) {
		return nil, &nodeError{field: path, line: n.Line, err: fmt.Errorf(format, args...)}
	}
	if r.inAlias > 0 {
		r.aliased++
	}
	switch {
	case r.aliased > maxAliased:
		return fail("the aliases stand for more than %d values", maxAliased)
	case depth > maxDepth:
		return fail("more than %d levels deep", maxDepth)
	}
	switch n.Kind {
	case yaml.AliasNode:
		r.inAlias++
		defer func() { r.inAlias-- }()
		return r.value(n.Alias, path, depth+1)
	case yaml.MappingNode, yaml.SequenceNode:
		switch n.ShortTag() {
		case "!!map":
			return r.mapping(n, path, depth)
		case "!!seq":
			return r.sequence(n, path, depth)
		}
		return fail("tag %s is not supported", n.ShortTag())
	case yaml.ScalarNode:
		v, err := scalar(n)
		if err != nil {
			return fail("%w", err)
		}
		return v, nil
	}
	return fail("not a value")
}

func (r *reader) mapping(n *yaml.Node, path string, depth int) (any, *nodeError) {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, child := n.Content[i], n.Content[i+1]
		at := joinKey(path, key.Value)
		switch tag := key.ShortTag(); {
		case key.Kind != yaml.ScalarNode || tag == "!!null":
			return nil, &nodeError{field: path, line: key.Line, err: errors.New("a key must be a plain word")}
		case tag == "!!merge":
			return nil, &nodeError{field: path, line: key.Line, err: errors.New("merge keys (<<) are not allowed")}
		}
		if _, twice := m[key.Value]; twice {
			return nil, &nodeError{field: at, line: key.Line, err: errTwice}
		}
		v, err := r.value(child, at, depth+1)
		if err != nil {
			return nil, err
		}
		m[key.Value] = v
	}
	return m, nil
}

func (r *reader) sequence(n *yaml.Node, path string, depth int) (any, *nodeError) {
	list := make([]any, 0, len(n.Content))
	for i, child := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		v, err := r.value(child, at, depth+1)
		if err != nil {
			return nil, err
		}
		if v == nil {
			// Decoded as a rule or a peer, nothing would become one that matches everything.
			return nil, &nodeError{field: at, line: child.Line, err: errors.New("an empty entry")}
		}
		list = append(list, v)
	}
	return list, nil
}

// scalar returns the value of a scalar. Dates are text.
func scalar(n *yaml.Node) (any, error) {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		switch n.Value {
		case "", "~", "null", "Null", "NULL":
			return nil, nil
		}
		return nil, fmt.Errorf("%q is no value of type %s", n.Value, tag)
	case "!!bool":
		var b bool
		return b, decode(n, &b)
	case "!!int", "!!float":
		return number(n)
	default:
		return nil, fmt.Errorf("tag %s is not supported", tag)
	}
}

// number returns an integer where the scalar is one, else a finite float.
func number(n *yaml.Node) (any, error) {
	if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil && !strings.HasPrefix(n.Value, "0") {
		return i, nil
	}
	var v any
	if err := decode(n, &v); err != nil {
		return nil, err
	}
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil, fmt.Errorf("%s is not a finite number", n.Value)
	}
	return v, nil
}

func decode(n *yaml.Node, into any) error {
	if err := n.Decode(into); err != nil {
		return fmt.Errorf("%q is no value of type %s", n.Value, n.ShortTag())
	}
	return nil
}

// join appends a path to a path.
func join(path, rest string) string {
	switch {
	case path == "":
		return rest
	case rest == "":
		return path
	}
	return path + "." + rest
}

// joinKey appends a key to a path: in brackets and quotes where it is more than a plain word.
func joinKey(path, key string) string {
	plain := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '-' && r != '_' && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
	})
	if plain {
		return join(path, key)
	}
	return path + "[" + strconv.Quote(key) + "]"
}

// lineOf returns the line, within its chunk, of the field at a path, or of what is nearest to it on
// the way there.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for n = resolve(n); n != nil && path != ""; n = resolve(n) {
		var at int
		if n, at, path = step(n, path); n != nil {
			line = at
		}
	}
	return line
}

// step follows the first part of a path and returns the node there, its line, and the rest of the path. It
// returns nil where there is no such part.
func step(n *yaml.Node, path string) (*yaml.Node, int, string) {
	if n.Kind == yaml.SequenceNode && path[0] == '[' {
		digits, rest, _ := strings.Cut(path[1:], "]")
		i, err := strconv.Atoi(digits)
		if err != nil || i < 0 || i >= len(n.Content) {
			return nil, 0, ""
		}
		return n.Content[i], n.Content[i].Line, rest
	}
	if n.Kind != yaml.MappingNode {
		return nil, 0, ""
	}
	if key, rest, ok := cutQuoted(path); ok {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1], n.Content[i].Line, rest
			}
		}
		return nil, 0, ""
	}
	path = strings.TrimPrefix(path, ".")
	found, longest := -1, 0 // keys may contain dots: the longest that fits is meant
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		rest, ok := strings.CutPrefix(path, key)
		if ok && len(key) > longest && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			found, longest = i, len(key)
		}
	}
	if found < 0 {
		return nil, 0, ""
	}
	return n.Content[found+1], n.Content[found].Line, path[longest:]
}

// cutQuoted cuts a path that begins with a key in brackets and quotes behind it.
func cutQuoted(path string) (key, rest string, ok bool) {
	text, ok := strings.CutPrefix(path, "[")
	if !ok {
		return "", "", false
	}
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", "", false
	}
	key, err = strconv.Unquote(quoted)
	rest, closed := strings.CutPrefix(text[len(quoted):], "]")
	return key, rest, err == nil && closed
}

// resolve follows an alias.
func resolve(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}
