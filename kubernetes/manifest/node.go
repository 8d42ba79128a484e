// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth limits nesting, to protect the process. Real manifests have far fewer levels.
const maxDepth = 100

// The limits of aliases, in bytes of the values that they refer to, counted each time. Aliases may
// refer to aliases. The size of a value includes the memory for it. A document may use minAliased
// bytes, and more if it is long.
const (
	minAliased  = 64 << 10
	perByte     = 4
	costOfValue = 32
)

var (
	errTwice   = errors.New("the key is given twice")
	errAliases = errors.New("the aliases expand to far more than the size of the document")
	errEmpty   = errors.New("an empty entry")
)

// parse parses the document of a chunk. It returns nil for a document without content.
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
		return nil, errors.New("there are two documents without a --- between them")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	return root, nil
}

// nodePath is the position of a node in an object: in a mapping or list that has a position itself.
// Nil is the object. Its path is computed only for errors.
type nodePath struct {
	in    *nodePath
	key   string
	index int // in a list; -1 in a mapping
}

func (p *nodePath) String() string {
	steps := p.steps()
	path := ""
	for _, s := range steps {
		if s.index < 0 {
			path = joinKey(path, s.key)
		} else {
			path += "[" + strconv.Itoa(s.index) + "]"
		}
	}
	return path
}

// steps returns the positions from the object to the node.
func (p *nodePath) steps() []*nodePath {
	var list []*nodePath
	for ; p != nil; p = p.in {
		list = append(list, p)
	}
	slices.Reverse(list)
	return list
}

// nodeError is an error of a node of a document.
type nodeError struct {
	at   *nodePath
	line int
	err  error
}

// reader converts nodes to the values that encoding/json uses.
type reader struct {
	inAlias int // the number of aliases around the present node
	aliased int // bytes that aliases may still use
	found   []nodeError
}

// newReader returns the reader of a document of a length in bytes.
func newReader(length int) reader { return reader{aliased: minAliased + perByte*length} }

// read returns the value of a node, and the errors in it. A node with an error has the value nil.
func (r *reader) read(n *yaml.Node) (any, []nodeError) {
	r.found = nil
	v := r.value(n, nil, 0)
	if !r.spend(0) { // in an alias, only its limit is reported
		r.fail(nil, n.Line, errAliases)
	}
	return v, r.found
}

// fail records an error of a node, and returns nil as its value.
func (r *reader) fail(at *nodePath, line int, err error) any {
	r.found = append(r.found, nodeError{at: at, line: line, err: err})
	return nil
}

// spend counts bytes if the reader is inside of an alias. It reports whether the limit permits
// them.
func (r *reader) spend(n int) bool {
	if r.inAlias > 0 {
		r.aliased -= n
	}
	return r.inAlias == 0 || r.aliased >= 0
}

// value returns the value of a node: nil, bool, int64, uint64, float64, string, []any or
// map[string]any.
func (r *reader) value(n *yaml.Node, at *nodePath, depth int) any {
	switch {
	case !r.spend(costOfValue + len(n.Value)):
		return nil // the outermost alias reports it
	case depth > maxDepth:
		return r.fail(at, n.Line, fmt.Errorf("more than %d levels deep", maxDepth))
	}
	switch n.Kind {
	case yaml.AliasNode:
		r.inAlias++
		v := r.value(n.Alias, at, depth+1)
		r.inAlias--
		if r.inAlias == 0 && r.aliased < 0 {
			return r.fail(at, n.Line, errAliases)
		}
		return v
	case yaml.MappingNode, yaml.SequenceNode:
		switch n.ShortTag() {
		case "!!map":
			return r.mapping(n, at, depth)
		case "!!seq":
			return r.sequence(n, at, depth)
		}
		return r.fail(at, n.Line, fmt.Errorf("tag %s is not supported", n.ShortTag()))
	case yaml.ScalarNode:
		v, err := scalar(n)
		if err != nil {
			return r.fail(at, n.Line, err)
		}
		return v
	}
	return r.fail(at, n.Line, errors.New("not a value"))
}

func (r *reader) mapping(n *yaml.Node, at *nodePath, depth int) any {
	m := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content) && r.spend(len(n.Content[i].Value)); i += 2 {
		key, child := n.Content[i], n.Content[i+1]
		switch tag := key.ShortTag(); {
		case key.Kind != yaml.ScalarNode || tag == "!!null":
			r.fail(at, key.Line, errors.New("a key must be a plain word"))
			continue
		case tag == "!!merge":
			r.fail(at, key.Line, errors.New("merge keys (<<) are not allowed"))
			continue
		}
		within := &nodePath{in: at, key: key.Value, index: -1}
		if _, twice := m[key.Value]; twice {
			r.fail(within, key.Line, errTwice)
			m[key.Value] = nil // it is unknown which of them is meant
			continue
		}
		m[key.Value] = r.value(child, within, depth+1)
	}
	return m
}

func (r *reader) sequence(n *yaml.Node, at *nodePath, depth int) any {
	list := make([]any, 0, min(len(n.Content), 64))
	for i, child := range n.Content {
		if !r.spend(0) {
			break
		}
		before := len(r.found)
		within := &nodePath{in: at, index: i}
		v := r.value(child, within, depth+1)
		if v == nil && len(r.found) == before && r.spend(0) {
			// Decoded as a rule or a peer, an empty entry would match everything.
			r.fail(within, child.Line, errEmpty)
		}
		list = append(list, v)
	}
	return list
}

// scalar returns the value of a scalar. A date is a string.
func scalar(n *yaml.Node) (any, error) {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return n.Value, nil
	case "!!null":
		switch n.Value {
		case "", "~", "null", "Null", "NULL":
			return nil, nil
		}
		return nil, fmt.Errorf("%q is not a value of type %s", n.Value, tag)
	case "!!bool":
		var b bool
		return b, decode(n, &b)
	case "!!int", "!!float":
		return number(n)
	default:
		return nil, fmt.Errorf("tag %s is not supported", tag)
	}
}

// number returns an integer, or else a finite float.
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
		return fmt.Errorf("%q is not a value of type %s", n.Value, n.ShortTag())
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
	case rest[0] == '[':
		return path + rest
	}
	return path + "." + rest
}

// joinKey appends a key to a path, in brackets and quotes unless it is a plain word.
func joinKey(path, key string) string {
	plain := key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return r != '-' && r != '_' && !('0' <= r && r <= '9') && !('a' <= r && r <= 'z') && !('A' <= r && r <= 'Z')
	})
	if plain {
		return join(path, key)
	}
	return path + "[" + strconv.Quote(key) + "]"
}

// lineOf returns the line in the chunk of the field at a path, or of the last existing field on
// that path.
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

// step returns the node of the first part of a path, its line, and the rest of the path. The node
// is nil if there is no such part.
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
	found, longest := -1, 0 // keys may contain dots: the longest one is used
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

// cutQuoted returns the first key of a path that begins with a key in brackets and quotes, and the
// rest.
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

// resolve returns the node that an alias refers to.
func resolve(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}
