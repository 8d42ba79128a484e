// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"slices"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	// verdictType is the data type of verdict maps (NFT_DATA_VERDICT).
	verdictType = 0xffffff00
	// typeBits is the number of bits for each field in the type of a concatenation.
	typeBits = 6
)

func setObject(name string) nfnl.Object { return nfnl.Object{Kind: "set", Name: name} }

// AddSet adds a named set without elements.
func (e *Encoder) AddSet(s *ruleset.Set) {
	object := setObject(s.Name)
	e.batch.Message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, e.family.Number(), object)
	e.setAttrs(&e.batch.Attrs, object, s)
	// any number that no anonymous set of the transaction has
	e.setID++
	e.batch.Uint32(unix.NFTA_SET_ID, e.setID)
}

// DeleteSet deletes a set with its elements.
func (e *Encoder) DeleteSet(name string) {
	e.message(unix.NFT_MSG_DELSET, 0, setObject(name), unix.NFTA_SET_NAME)
}

// AddElements adds elements to a set, in as many messages as necessary.
func (e *Encoder) AddElements(s *ruleset.Set, elements []ruleset.Element) {
	e.elements(elementsObject(s), unix.NFT_MSG_NEWSETELEM, s, 0, elements, nil)
}

// DeleteElements deletes elements of a set, in as many messages as necessary.
func (e *Encoder) DeleteElements(s *ruleset.Set, elements []ruleset.Element) {
	e.elements(elementsObject(s), unix.NFT_MSG_DELSETELEM, s, 0, elements, nil)
}

func elementsObject(s *ruleset.Set) nfnl.Object {
	return nfnl.Object{Kind: "elements of set", Name: s.Name}
}

// SetAttrs appends the attributes of a named set, in the order in which the kernel lists them.
func (e *Encoder) SetAttrs(a *netlink.Attrs, s *ruleset.Set) { e.setAttrs(a, setObject(s.Name), s) }

// setAttrs does what SetAttrs does. object is for errors.
func (e *Encoder) setAttrs(a *netlink.Attrs, object nfnl.Object, s *ruleset.Set) {
	a.String(unix.NFTA_SET_TABLE, e.table)
	a.String(unix.NFTA_SET_NAME, s.Name)
	a.Uint32(unix.NFTA_SET_FLAGS, setFlags(s))
	e.setType(a, object, s)
	if s.Timeout != 0 {
		a.Uint64(unix.NFTA_SET_TIMEOUT, uint64(s.Timeout.Milliseconds()))
	}
	if s.GCInterval != 0 {
		a.Uint32(unix.NFTA_SET_GC_INTERVAL, uint32(s.GCInterval.Milliseconds()))
	}
	a.Bytes(unix.NFTA_SET_USERDATA, setUserdata(s))
	if concatInterval := s.Interval && len(s.Key) > 1; s.Size != 0 || concatInterval {
		desc := a.Begin(unix.NFTA_SET_DESC)
		if s.Size != 0 {
			size := s.Size
			if s.Interval && len(s.Key) == 1 { // the kernel counts both ends
				size *= 2
			}
			a.Uint32(unix.NFTA_SET_DESC_SIZE, size)
		}
		if concatInterval {
			fields := a.Begin(AttrSetDescConcat)
			for _, t := range s.Key {
				field := a.Begin(unix.NFTA_LIST_ELEM)
				a.Uint32(AttrSetFieldLen, uint32(t.Size()))
				a.End(field)
			}
			a.End(fields)
		}
		a.End(desc)
	}
	if s.Counter {
		appendCounter(a, AttrSetExpr)
	}
}

// setType appends the types of key and data.
func (e *Encoder) setType(a *netlink.Attrs, object nfnl.Object, s *ruleset.Set) {
	number, length, ok := concatenation(s.Key)
	if !ok {
		e.fail(object, "unsupported key %v", s.Key)
	}
	a.Uint32(unix.NFTA_SET_KEY_TYPE, number)
	a.Uint32(unix.NFTA_SET_KEY_LEN, length)
	switch {
	case s.Verdicts:
		a.Uint32(unix.NFTA_SET_DATA_TYPE, verdictType)
	case len(s.Data) > 0:
		if number, length, ok = concatenation(s.Data); !ok {
			e.fail(object, "unsupported data %v", s.Data)
		}
		a.Uint32(unix.NFTA_SET_DATA_TYPE, number)
		a.Uint32(unix.NFTA_SET_DATA_LEN, length)
	}
}

func setFlags(s *ruleset.Set) uint32 {
	var flags uint32
	if s.Interval {
		flags |= unix.NFT_SET_INTERVAL
		if len(s.Key) > 1 {
			flags |= nftSetConcat
		}
	}
	if s.Verdicts || len(s.Data) > 0 {
		flags |= unix.NFT_SET_MAP
	}
	if s.Timed() {
		flags |= unix.NFT_SET_TIMEOUT
	}
	return flags
}

// setUserdata returns the entries that nft needs to print elements, and the comment.
func setUserdata(s *ruleset.Set) []byte {
	data := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, byteOrder(s.Key))
	if len(s.Data) > 0 {
		data = userdata.AppendUint32(data, udataSetDataByteOrder, byteOrder(s.Data))
	}
	if s.Comment != "" {
		data = userdata.AppendString(data, udataSetComment, s.Comment)
	}
	return data
}

// elements adds or deletes elements. id is zero, or the number of an anonymous set. If hash is not
// nil, the elements are added to it.
func (e *Encoder) elements(
	object nfnl.Object, typ uint16, s *ruleset.Set, id uint32, elements []ruleset.Element, hash *uint64,
) {
	list := -1
	flags := uint16(unix.NLM_F_CREATE)
	if typ == unix.NFT_MSG_DELSETELEM {
		flags = 0
	}
	end := func() {
		if list >= 0 {
			if hash != nil {
				*hash = mix(*hash, e.batch.From(list))
			}
			e.batch.End(list)
			list = -1
		}
	}
	var raw element
	for i := range elements {
		if list >= 0 && e.batch.Size(list) > maxElements {
			end()
		}
		if list < 0 {
			e.batch.Message(typ, flags, e.family.Number(), object)
			e.batch.String(unix.NFTA_SET_ELEM_LIST_TABLE, e.table)
			e.batch.String(unix.NFTA_SET_ELEM_LIST_SET, s.Name)
			if id != 0 {
				e.batch.Uint32(unix.NFTA_SET_ELEM_LIST_SET_ID, id)
			}
			list = e.batch.Begin(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		}
		e.element(object, s, &elements[i], &raw, typ == unix.NFT_MSG_DELSETELEM)
	}
	end()
}

// element writes one element. An interval with one field becomes two elements: its first key, and
// the key after its last one.
func (e *Encoder) element(object nfnl.Object, s *ruleset.Set, el *ruleset.Element, raw *element, keyOnly bool) {
	var ok bool
	e.key = e.key[:0]
	*raw = element{}
	if raw.key, ok = e.pack(s.Key, el.Key); !ok {
		e.fail(object, "element %v does not fit its set", el.Key)
		return
	}
	if !keyOnly && !e.value(s, el, raw) {
		e.fail(object, "verdict or data of element %v do not fit its set", el.Key)
		return
	}
	if !s.Interval {
		appendElement(&e.batch.Attrs, raw)
		return
	}
	last := raw.key
	if len(s.Key) > 1 {
		ends := el.Key
		if el.Ends != nil {
			ends = slices.Clone(el.Ends)
			for i := range ends {
				if ends[i] == nil {
					ends[i] = el.Key[i]
				}
			}
		}
		if raw.end, ok = e.pack(s.Key, ends); !ok || bytes.Compare(raw.end, raw.key) < 0 {
			e.fail(object, "interval %v ends before it starts, or does not fit", el.Key)
			return
		}
		appendElement(&e.batch.Attrs, raw)
		return
	}
	if el.Last != nil {
		last = el.Last
	}
	if len(last) != len(raw.key) || bytes.Compare(last, raw.key) < 0 {
		e.fail(object, "interval %v ends before it starts, or does not fit", el.Key)
		return
	}
	appendElement(&e.batch.Attrs, raw)
	e.key = append(e.key, last...)
	if end := e.key[len(e.key)-len(last):]; increment(end) { // otherwise the interval ends with the last possible key
		appendElement(&e.batch.Attrs, &element{key: end, boundary: true})
	}
}

// value copies the parts of an element other than its key.
func (e *Encoder) value(s *ruleset.Set, el *ruleset.Element, raw *element) bool {
	if (el.Verdict != nil) != s.Verdicts || (len(el.Data) > 0) != (len(s.Data) > 0) ||
		len(el.Comment) > ruleset.MaxComment {
		return false
	}
	if v := el.Verdict; v != nil {
		raw.verdict = true
		raw.code = e.verdictCode(nfnl.Object{Kind: "element of", Name: s.Name}, *v)
		raw.chain = v.Chain
	}
	ok := true
	if len(s.Data) > 0 {
		raw.data, ok = e.pack(s.Data, el.Data)
	}
	raw.comment, raw.timeout = el.Comment, el.Timeout
	return ok
}

// pack joins the fields of a key or of data. In a concatenation, each field is padded to a word.
// The result is valid until e.key changes.
func (e *Encoder) pack(types []ruleset.Type, values []ruleset.Value) ([]byte, bool) {
	if len(values) != len(types) {
		return nil, false
	}
	start := len(e.key)
	for i, v := range values {
		if size := types[i].Size(); size == 0 || len(v) != size {
			return nil, false
		}
		if len(types) == 1 {
			return v, true
		}
		e.key = append(e.key, v...)
		for (len(e.key)-start)%word != 0 {
			e.key = append(e.key, 0)
		}
	}
	return e.key[start:], true
}

// concatenation returns the number and the length of the type of a key or of data.
func concatenation(types []ruleset.Type) (number, length uint32, ok bool) {
	for _, t := range types {
		if t.Size() == 0 {
			return 0, 0, false
		}
		if len(types) == 1 {
			return t.Number(), uint32(t.Size()), true
		}
		number = number<<typeBits | t.Number()
		length += uint32(Padded(t.Size()))
	}
	return number, length, len(types) > 0 && len(types)*typeBits <= 32 && length <= unix.NFT_DATA_VALUE_MAXLEN
}

// byteOrder returns nft's number of the byte order of values.
func byteOrder(types []ruleset.Type) uint32 {
	const mixed, host, network = 0, 1, 2
	switch {
	case len(types) != 1:
		return mixed
	case types[0].HostOrder() || types[0].Size() == 1:
		return host
	}
	return network
}

// increment adds one to a key. After the last possible key, it returns false.
func increment(key []byte) bool {
	for i := len(key) - 1; i >= 0; i-- {
		key[i]++
		if key[i] != 0 {
			return true
		}
	}
	return false
}
