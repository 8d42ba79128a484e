// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"hash/maphash"
	"strings"

	"github.com/wayleave/wayleave/internal/idtable"
	"github.com/wayleave/wayleave/policy"
)

// namespaces gives objects the label that their namespace implies: each namespace is a parent in
// the label index, before the profiles, so that the labels of an object need not be copied. Names
// of profiles hold no slash, so the two do not meet.
type namespaces struct {
	index  parentIndex
	known  idtable.Map[string, namespace] // by number less one: 0 stands for no namespace
	labels map[string]string              // room for the labels of one
}

type namespace struct {
	parent string // a slash and the name
	users  int
}

// parentIndex is what namespaces needs of a label index.
type parentIndex interface {
	UpdateParent(name string, labels map[string]string)
	DeleteParent(name string)
}

func newNamespaces(index parentIndex) namespaces {
	seed := maphash.MakeSeed()
	hash := func(name string) uint64 { return maphash.String(seed, name) }
	return namespaces{index: index, known: idtable.NewMap[string, namespace](hash), labels: map[string]string{}}
}

// find returns the number of a namespace that has users; 0 stands for none.
func (n *namespaces) find(name string) (uint32, bool) {
	if name == "" {
		return 0, true
	}
	id, _, ok := n.known.Find(name)
	return id + 1, ok
}

// use counts one object more in a namespace and returns its number.
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

// release counts one object less.
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

// isProfileName reports whether a name can be that of a profile, and so is not that of a
// namespace's parent. Keys of deletions are not validated: they may have any name.
func isProfileName(name string) bool { return !strings.HasPrefix(name, "/") }

// appendParents appends what an object of the namespace with these profiles inherits from, the
// first one before the others.
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
