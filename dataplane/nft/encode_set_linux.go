// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"slices"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

const (
	// maxElements bounds the list of elements in one message: its length is a 16-bit number, and
	// one that wraps loses elements without an error.
	maxElements = 32 << 10

	// verdictType stands for "the data are verdicts" (NFT_DATA_VERDICT).
	verdictType = 0xffffff00

	// typeBits is the width of each field's type in the type of a concatenation.
	typeBits = 6

	// word is what every field of a concatenation is padded to.
	word = 4
)

// setRef is how a rule names a set of the same transaction.
type setRef struct {
	name string
	id   uint32
	spec *setSpec
}

// setSpec is what named and anonymous sets have in common.
type setSpec struct {
	key                           []ruleset.Type
	elements                      []ruleset.Element
	interval, verdicts, anonymous bool
}

func (e *encoder) namedSet(s *ruleset.Set) {
	spec := &setSpec{key: s.Key, interval: s.Interval, verdicts: s.Verdicts, elements: s.Elements}
	e.sets[s.Name] = e.set(nfnl.Object{Kind: "set", Name: s.Name}, s.Name, spec)
}

// anonymousSet adds a set that lives and dies with the rule that refers to it.
func (e *encoder) anonymousSet(owner nfnl.Object, fields []ruleset.Field, elements []ruleset.Element, verdicts bool) setRef {
	spec := &setSpec{
		verdicts: verdicts, elements: elements, anonymous: true,
		interval: slices.ContainsFunc(elements, func(el ruleset.Element) bool { return el.Last != nil }),
	}
	for _, f := range fields {
		spec.key = append(spec.key, f.Type())
	}
	name := "__set%d" // The kernel puts in a number.
	if verdicts {
		name = "__map%d"
	}
	if len(elements) == 0 {
		e.fail(owner, "an anonymous set needs elements")
	}
	return e.set(owner, name, spec)
}

func (e *encoder) set(object nfnl.Object, name string, s *setSpec) setRef {
	keyType, keyLen, ok := concatenation(s.key)
	if !ok || s.interval && len(s.key) != 1 {
		e.fail(object, "no such key: %v, interval %t", s.key, s.interval)
	}
	e.setID++
	ref := setRef{name: name, id: e.setID, spec: s}
	e.Message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, unix.NFPROTO_INET, object)
	e.String(unix.NFTA_SET_TABLE, e.table)
	e.String(unix.NFTA_SET_NAME, name)
	e.Uint32(unix.NFTA_SET_FLAGS, s.flags())
	e.Uint32(unix.NFTA_SET_KEY_TYPE, keyType)
	e.Uint32(unix.NFTA_SET_KEY_LEN, keyLen)
	if s.verdicts {
		e.Uint32(unix.NFTA_SET_DATA_TYPE, verdictType)
		e.Uint32(unix.NFTA_SET_DATA_LEN, 0)
	}
	e.Uint32(unix.NFTA_SET_ID, ref.id)
	if s.anonymous { // Its size never changes, so the kernel can choose the smallest form that holds it.
		desc := e.Begin(unix.NFTA_SET_DESC)
		e.Uint32(unix.NFTA_SET_DESC_SIZE, uint32(s.kernelElements()))
		e.End(desc)
	}
	e.Bytes(unix.NFTA_SET_USERDATA, userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, keyByteOrder(s.key)))
	e.elements(object, ref)
	return ref
}

func (s *setSpec) flags() uint32 {
	var flags uint32
	if s.anonymous {
		flags |= unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT
	}
	if s.interval {
		flags |= unix.NFT_SET_INTERVAL
	}
	if s.verdicts {
		flags |= unix.NFT_SET_MAP
	}
	return flags
}

// kernelElements is how many elements the kernel counts: an interval has two.
func (s *setSpec) kernelElements() int {
	if s.interval {
		return 2 * len(s.elements)
	}
	return len(s.elements)
}

// elements adds those of a set, in as many messages as it takes.
func (e *encoder) elements(set nfnl.Object, ref setRef) {
	s := ref.spec
	object := nfnl.Object{Kind: "elements of " + set.Kind, Name: set.Name, Index: set.Index}
	list := -1
	for i := range s.elements {
		if list >= 0 && e.Size(list) > maxElements {
			e.End(list)
			list = -1
		}
		if list < 0 {
			e.Message(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, object)
			e.String(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
			e.String(unix.NFTA_SET_ELEM_LIST_SET, ref.name)
			e.Uint32(unix.NFTA_SET_ELEM_LIST_SET_ID, ref.id)
			list = e.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		}
		e.element(object, s, &s.elements[i])
	}
	if list >= 0 {
		e.End(list)
	}
}

// element adds one element. An interval is two: where it starts, and the first key behind it.
func (e *encoder) element(object nfnl.Object, s *setSpec, el *ruleset.Element) {
	key, ok := packKey(s.key, el.Key)
	if !ok || (el.Verdict != nil) != s.verdicts || el.Last != nil && (!s.interval || len(el.Last) != len(key)) {
		e.fail(object, "element %v does not fit its set", el.Key)
		return
	}
	if !s.interval {
		e.elementKey(key, 0, el.Verdict, object)
		return
	}
	last := key
	if el.Last != nil {
		last = el.Last
	}
	if slices.Compare(last, key) < 0 {
		e.fail(object, "interval %v ends before it starts", el.Key)
		return
	}
	e.elementKey(key, 0, el.Verdict, object)
	if end := successor(last); end != nil { // Otherwise it goes on to the very end.
		e.elementKey(end, unix.NFT_SET_ELEM_INTERVAL_END, nil, object)
	}
}

func (e *encoder) elementKey(key []byte, flags uint32, v *ruleset.Verdict, object nfnl.Object) {
	elem := e.Begin(unix.NFTA_LIST_ELEM)
	if flags != 0 {
		e.Uint32(unix.NFTA_SET_ELEM_FLAGS, flags)
	}
	nest := e.Begin(unix.NFTA_SET_ELEM_KEY)
	e.Bytes(unix.NFTA_DATA_VALUE, key)
	e.End(nest)
	if v != nil {
		code, ok := verdictCode(v.Kind)
		if !ok || (v.Chain != "") != takesChain(v.Kind) {
			e.fail(object, "no such verdict: %d %q", v.Kind, v.Chain)
		}
		data := e.Begin(unix.NFTA_SET_ELEM_DATA)
		verdict := e.Begin(unix.NFTA_DATA_VERDICT)
		e.Uint32(unix.NFTA_VERDICT_CODE, uint32(code))
		if v.Chain != "" {
			e.String(unix.NFTA_VERDICT_CHAIN, v.Chain)
		}
		e.End(verdict)
		e.End(data)
	}
	e.End(elem)
}

// packKey joins the fields of a key; in a concatenation each is padded to a word.
func packKey(key []ruleset.Type, values []ruleset.Value) ([]byte, bool) {
	if len(values) != len(key) {
		return nil, false
	}
	var packed []byte
	for i, v := range values {
		if size := key[i].Size(); size == 0 || len(v) != size {
			return nil, false
		}
		if len(key) == 1 {
			return v, true
		}
		packed = append(packed, v...)
		for len(packed)%word != 0 {
			packed = append(packed, 0)
		}
	}
	return packed, true
}

// concatenation returns the number and length of a key's type.
func concatenation(key []ruleset.Type) (number, length uint32, ok bool) {
	for _, t := range key {
		n, known := typeNumber(t)
		if !known {
			return 0, 0, false
		}
		if len(key) == 1 {
			return n, uint32(t.Size()), true
		}
		number = number<<typeBits | n
		length += uint32(wordsOf(t.Size()) * word)
	}
	return number, length, len(key) > 0 && len(key)*typeBits <= 32 && length <= unix.NFT_DATA_VALUE_MAXLEN
}

// keyByteOrder is what nft notes about a set in order to print its elements.
func keyByteOrder(key []ruleset.Type) uint32 {
	const mixed, host, network = 0, 1, 2
	switch {
	case len(key) != 1:
		return mixed
	case isAddress(key[0]) || key[0] == ruleset.TypeService:
		return network
	}
	return host
}

// successor is the value after v, or nil after the last.
func successor(v []byte) []byte {
	next := slices.Clone(v)
	for i := len(next) - 1; i >= 0; i-- {
		next[i]++
		if next[i] != 0 {
			return next
		}
	}
	return nil
}

// wordsOf is how many words a field of a concatenation takes.
func wordsOf(size int) int { return (size + word - 1) / word }

// typeNumber returns nft's number of a type, by which it prints the elements.
func typeNumber(t ruleset.Type) (number uint32, ok bool) {
	switch t {
	case ruleset.TypeNFProto:
		return 2, true
	case ruleset.TypeIPv4:
		return 7, true
	case ruleset.TypeIPv6:
		return 8, true
	case ruleset.TypeProto:
		return 12, true
	case ruleset.TypeService:
		return 13, true
	case ruleset.TypeICMP:
		return 14, true
	case ruleset.TypeCtState:
		return 26, true
	case ruleset.TypeICMPv6:
		return 29, true
	case ruleset.TypeICMPCode:
		return 32, true
	case ruleset.TypeICMPv6Code:
		return 33, true
	case ruleset.TypeIfname:
		return 41, true
	}
	return 0, false
}
