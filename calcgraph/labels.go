// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// namespaces gives objects the label that their namespace implies: each namespace is a parent in
// the label index, before the profiles, so that the labels of an object need not be copied. Names
// of profiles hold no slash, so the two do not meet.
type namespaces struct {
	index  parentIndex
	number map[string]uint32
	known  []namespace // by number; the first stands for no namespace
	free   []uint32
	labels map[string]string // room for the labels of one
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
	return namespaces{
		index: index, number: map[string]uint32{}, known: make([]namespace, 1), labels: map[string]string{},
	}
}

// find returns the number of a namespace that has users; 0 stands for none.
func (n *namespaces) find(name string) (uint32, bool) {
	if name == "" {
		return 0, true
	}
	number, ok := n.number[name]
	return number, ok
}

// use counts one object more in a namespace and returns its number.
func (n *namespaces) use(name string) uint32 {
	if name == "" {
		return 0
	}
	number, ok := n.number[name]
	if !ok {
		if last := len(n.free) - 1; last >= 0 {
			number, n.free = n.free[last], n.free[:last]
		} else {
			number = uint32(len(n.known))
			n.known = append(n.known, namespace{})
		}
		parent := "/" + name
		n.number[parent[1:]] = number
		n.known[number] = namespace{parent: parent}
		n.labels[policy.LabelNamespace] = name
		n.index.UpdateParent(parent, n.labels)
	}
	n.known[number].users++
	return number
}

// release counts one object less.
func (n *namespaces) release(number uint32) {
	if number == 0 {
		return
	}
	ns := &n.known[number]
	if ns.users--; ns.users > 0 {
		return
	}
	n.index.DeleteParent(ns.parent)
	delete(n.number, ns.parent[1:])
	*ns = namespace{}
	n.free = append(n.free, number)
}

// isProfileName reports whether a name can be that of a profile, and so is not that of a
// namespace's parent. Validation knows only resources: what is deleted may have any name.
func isProfileName(name string) bool { return !strings.HasPrefix(name, "/") }

// appendParents appends what an object of the namespace with these profiles inherits from, the
// first one before the others.
func (n *namespaces) appendParents(buf []string, number uint32, profiles []string) []string {
	if number != 0 {
		buf = append(buf, n.known[number].parent)
	}
	for _, name := range profiles {
		if isProfileName(name) {
			buf = append(buf, name)
		}
	}
	return buf
}
