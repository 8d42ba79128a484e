// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/wayleave/wayleave/kubernetes/convert"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxProblems is how many problems of one object are reported: each has a place that is looked
// up, so that an object with a fault in every field would cost the square of its size.
const maxProblems = 100

var errMore = errors.New("there are more problems, which are not listed")

// document is the work on one document: what came of it, and what was wrong.
type document struct {
	converter convert.Converter
	origin    Error // the file and the document, with which every error begins
	first     int   // line of the file where the document's text begins
	root      *yaml.Node
	values    reader
	entries   []entry
	errs      []error
}

// identity is what an object says it is.
type identity struct{ apiVersion, kind string }

// fail reports something wrong with a field.
func (d *document) fail(object, field string, err error) {
	d.failAt(lineOf(d.root, field), object, field, err)
}

// failAt reports something wrong in a line of the document.
func (d *document) failAt(line int, object, field string, err error) {
	e := d.origin
	e.Line, e.Object, e.Field, e.Err = d.first+line-1, object, field, err
	d.errs = append(d.errs, &e)
}

// decode reads the document.
func (d *document) decode(c chunk) {
	root, err := parse(c)
	if err != nil {
		line, cause := syntaxError(err)
		d.failAt(line, "", "", cause)
		return
	}
	if root == nil {
		return
	}
	d.root = root
	id := identify(root)
	if item, isList := itemKind(id); isList {
		d.list(root, item)
		return
	}
	d.node(root, "", identity{})
}

// list reads the items of a list, each by itself. The identity is that of items that do
// not say what they are.
func (d *document) list(n *yaml.Node, item identity) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		if seen[key.Value] {
			d.failAt(key.Line, "List", key.Value, errTwice)
			continue
		}
		seen[key.Value] = true
		switch key.Value {
		case "apiVersion", "kind", "metadata":
		case "items":
			d.items(value, item)
		default:
			d.failAt(key.Line, "List", key.Value, ErrUnknownField)
		}
	}
}

func (d *document) items(n *yaml.Node, item identity) {
	switch {
	case n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
	case n.Kind != yaml.SequenceNode:
		d.fail("List", "items", errors.New("want a list"))
	default:
		for i, child := range n.Content {
			d.node(child, fmt.Sprintf("items[%d]", i), item)
		}
	}
}

// node reads one object at a path of the document.
func (d *document) node(n *yaml.Node, path string, item identity) {
	id := identify(n)
	if id == (identity{}) {
		id = item
	}
	name := objectName(n, id.kind)
	value, wrong := d.values.value(n, path, 0)
	if wrong != nil {
		d.failAt(wrong.line, name, wrong.field, wrong.err)
		return
	}
	object, ok := value.(map[string]any)
	switch {
	case !ok || id.kind == "" || id.apiVersion == "":
		d.fail(name, path, errors.New("want an object with apiVersion and kind"))
		return
	case newObject(id) == nil:
		d.fail(name, join(path, "kind"), fmt.Errorf("%w: %q of apiVersion %q", ErrUnknownKind, id.kind, id.apiVersion))
		return
	}
	problems := append(nulls(id, object), clusterRequired(id, object)...)
	doubts, replaced := doubtfulRules(id, object)
	var typed metav1.Object
	if len(problems) == 0 {
		typed, problems = decodeTyped(object, func() metav1.Object { return newObject(id) })
	}
	for i, p := range append(doubts, problems...) {
		if i == maxProblems {
			d.fail(name, path, errMore)
			break
		}
		d.fail(name, join(path, p.field), p.err)
	}
	if typed != nil {
		d.convert(typed, name, path, replaced)
	}
}

// convert makes resources of an object. What is wrong with the rules that were replaced is told already.
func (d *document) convert(object metav1.Object, name, path string, replaced map[string]bool) {
	resources, problems := d.converter.Convert(object)
	problems = slices.DeleteFunc(problems, func(err error) bool {
		var wrong *convert.Error
		return errors.As(err, &wrong) && replaced[ruleOf(wrong.Field)]
	})
	for i, err := range problems {
		if i == maxProblems {
			d.fail(name, path, errMore)
			break
		}
		var wrong *convert.Error
		if !errors.As(err, &wrong) {
			d.fail(name, path, err)
			continue
		}
		d.fail(wrong.Object, join(path, wrong.Field), wrong.Err)
	}
	if len(resources) == 0 {
		return
	}
	origin := d.origin
	origin.Line, origin.Object = d.first+lineOf(d.root, path)-1, name
	d.entries = append(d.entries, entry{resources: resources, origin: origin})
}

// identify reads what an object says it is, as far as that can be read.
func identify(n *yaml.Node) identity {
	return identity{apiVersion: text(n, "apiVersion"), kind: text(n, "kind")}
}

// objectName returns how errors name the object.
func objectName(n *yaml.Node, kind string) string {
	metadata := child(n, "metadata")
	return convert.ObjectName(kind, text(metadata, "namespace"), text(metadata, "name"))
}

// text returns the text of a key of a mapping, or "".
func text(n *yaml.Node, key string) string {
	v := child(n, key)
	if v == nil || v.Kind != yaml.ScalarNode || v.ShortTag() != "!!str" {
		return ""
	}
	return v.Value
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	n = resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}
