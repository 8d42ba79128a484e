// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"hash/maphash"
	"strings"

	"github.com/wayleave/wayleave/internal/idtable"
	"github.com/wayleave/wayleave/policy"
)

// namespaces adds the implied namespace label of objects. Each namespace is a parent in the label
// index, before the profiles. So the labels of an object need not be copied. The parent's name
// begins with a slash, which no name of a profile does.
type namespaces struct {
	index  parentIndex
	known  idtable.Map[string, namespace] // by number minus one: number 0 means no namespace
	labels map[string]string              // buffer for the labels of one namespace
}

type namespace struct {
	parent string // a slash and the name
	users  int
}

// parentIndex has the methods of a label index that namespaces calls.
type parentIndex interface {
	UpdateParent(name string, labels map[string]string)
	DeleteParent(name string)
}

func newNamespaces(index parentIndex) namespaces {
	seed := maphash.MakeSeed()
	hash := func(name string) uint64 { return maphash.String(seed, name) }
	return namespaces{index: index, known: idtable.NewMap[string, namespace](hash), labels: map[string]string{}}
}

// find returns the number of a namespace with references; 0 means no namespace.
func (n *namespaces) find(name string) (uint32, bool) {
	if name == "" {
		return 0, true
	}
	id, _, ok := n.known.Find(name)
	return id + 1, ok
}

// use adds a reference to a namespace and returns its number.
func (n *namespaces) use(name string) uint32 {
	if name == "" {
		return 0
	}
	id, hash, ok := n.known.Find(name)
	if !ok {
		parent := "/" + name
		id = n.known.Add(parent[1:], hash)
		n.known.At(id).parent = parent
		n.labels[policy.LabelNamespace] = name
		n.index.UpdateParent(parent, n.labels)
	}
	n.known.At(id).users++
	return id + 1
}

// release removes a reference.
func (n *namespaces) release(number uint32) {
	if number == 0 {
		return
	}
	ns := n.known.At(number - 1)
	if ns.users--; ns.users > 0 {
		return
	}
	n.index.DeleteParent(ns.parent)
	n.known.Remove(number - 1)
}

// isProfileName reports whether a name can be that of a profile. Keys of deletions are not
// validated, so they can have the name of a namespace's parent.
func isProfileName(name string) bool { return !strings.HasPrefix(name, "/") }

// appendParents appends the parents of an object: its namespace, then its profiles.
func (n *namespaces) appendParents(buf []string, number uint32, profiles []string) []string {
	if number != 0 {
		buf = append(buf, n.known.At(number-1).parent)
	}
	for _, name := range profiles {
		if isProfileName(name) {
			buf = append(buf, name)
		}
	}
	return buf
}
