// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// sameSet reports whether the kernel's set is the one that we would make, regardless of its
// elements.
func sameSet(ours, theirs []byte) bool {
	for _, typ := range []uint16{
		unix.NFTA_SET_TABLE, unix.NFTA_SET_NAME, unix.NFTA_SET_KEY_TYPE, unix.NFTA_SET_KEY_LEN, unix.NFTA_SET_DATA_TYPE,
		unix.NFTA_SET_POLICY, unix.NFTA_SET_TIMEOUT, unix.NFTA_SET_GC_INTERVAL, unix.NFTA_SET_USERDATA,
		unix.NFTA_SET_OBJ_TYPE, encode.AttrSetExpressions,
	} {
		if !bytes.Equal(netlink.FindAttr(ours, typ), netlink.FindAttr(theirs, typ)) {
			return false
		}
	}
	// The kernel leaves out flags of zero, and lists a counter with its numbers.
	flags := func(set []byte) uint32 { return netlink.Number32(netlink.FindAttr(set, unix.NFTA_SET_FLAGS)) }
	expr := func(set []byte) []byte {
		return netlink.FindAttr(netlink.FindAttr(set, encode.AttrSetExpr), unix.NFTA_EXPR_NAME)
	}
	return flags(ours) == flags(theirs) && bytes.Equal(expr(ours), expr(theirs)) &&
		sameDesc(netlink.FindAttr(ours, unix.NFTA_SET_DESC), netlink.FindAttr(theirs, unix.NFTA_SET_DESC))
}

// sameDesc reports whether two descriptions have the same size of the set and the same lengths of
// key fields.
func sameDesc(a, b []byte) bool {
	size := func(desc []byte) uint32 { return netlink.Number32(netlink.FindAttr(desc, unix.NFTA_SET_DESC_SIZE)) }
	return size(a) == size(b) && slices.Equal(fieldLengths(a), fieldLengths(b))
}

func fieldLengths(desc []byte) (lengths []uint32) {
	for _, field := range netlink.Attributes(netlink.FindAttr(desc, encode.AttrSetDescConcat)) {
		lengths = append(lengths, netlink.Number32(netlink.FindAttr(field, encode.AttrSetFieldLen)))
	}
	return lengths
}

// set compares one set, with its elements.
func (c *comparer) set(name string) error {
	want, have := c.want.Set(name), c.have.sets[name]
	if have == nil {
		whole := *want
		whole.Elements = c.want.View(name).Elements()
		c.diff.Inverse.DeleteSets = append(c.diff.Inverse.DeleteSets, name)
		c.diff.Repair.Sets = append(c.diff.Repair.Sets, &whole)
		return nil
	}
	c.attrs.Reset()
	c.enc.SetAttrs(&c.attrs, want)
	ours, _ := c.attrs.Data()
	if !sameSet(ours, have.attrs) {
		c.diff.RebuildReason = "set " + name + " is of another type"
		return nil
	}
	s := &setComparer{set: want, view: c.want.View(name)}
	if want.Interval && len(want.Key) == 1 {
		s.bounds = make([]bound, 0, 2*c.want.Len(name)+1)
	}
	if err := c.reader.elements(name, s.begin, s.element); err != nil {
		if errors.Is(err, errForm) {
			c.diff.RebuildReason = "set " + name + " has unsupported elements"
			return nil
		}
		return err
	}
	if err := s.end(); err != nil {
		c.diff.RebuildReason = "set " + name + " has intervals that do not end"
		return nil
	}
	if s.matched == c.want.Len(name) && len(s.extra) == 0 {
		return nil
	}
	s.seen = map[string]bool{} // read again: now the ids are needed
	if err := c.reader.elements(name, s.begin, s.element); err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	inverse, repair := s.deltas(name)
	c.diff.Inverse.Elements = append(c.diff.Inverse.Elements, inverse)
	c.diff.Repair.Elements = append(c.diff.Repair.Elements, repair)
	return nil
}

// errForm reports an element of a form that we never write.
var errForm = errors.New("unsupported element")

// setComparer compares the elements that the kernel lists with those of a set.
type setComparer struct {
	set  *ruleset.Set
	view ruleset.View
	// matched is the number of elements that are as desired. extra has the others.
	matched int
	extra   []ruleset.Packed
	// seen has the ids of the matched elements, unless it is nil.
	seen map[string]bool
	// bounds has the beginnings and ends of the intervals of a set with one field, in the order in
	// which the kernel lists them.
	bounds []bound
	id     []byte
	data   []byte
	kept   []byte
}

// bound is the beginning of an interval, or if end is set, the first key after it. The field more
// has data other than the key. Few elements have such data.
type bound struct {
	key  []byte
	more *ruleset.Packed
	end  bool
}

func (s *setComparer) begin() {
	s.matched, s.extra, s.bounds = 0, nil, s.bounds[:0]
	clear(s.seen)
}

// element processes one element as the kernel lists it.
func (s *setComparer) element(attrs []byte) error {
	var p ruleset.Packed
	var key, keyEnd []byte
	boundary := false
	for typ, value, rest, ok := netlink.NextAttr(attrs); ok; typ, value, rest, ok = netlink.NextAttr(rest) {
		switch typ {
		case unix.NFTA_SET_ELEM_KEY:
			key = netlink.FindAttr(value, unix.NFTA_DATA_VALUE)
		case encode.AttrSetElemKeyEnd:
			keyEnd = netlink.FindAttr(value, unix.NFTA_DATA_VALUE)
		case unix.NFTA_SET_ELEM_DATA:
			if !s.value(value, &p) {
				return errForm
			}
		case unix.NFTA_SET_ELEM_FLAGS:
			if flags := netlink.Number32(value); flags&^unix.NFT_SET_ELEM_INTERVAL_END != 0 {
				return errForm // for example, an element for everything else
			} else if flags != 0 {
				boundary = true
			}
		case unix.NFTA_SET_ELEM_TIMEOUT:
			p.Timeout = time.Duration(netlink.Number64(value)) * time.Millisecond
		case unix.NFTA_SET_ELEM_USERDATA:
			if len(value) < 3 || value[0] != 0 || int(value[1]) != len(value)-2 {
				return errForm
			}
			p.Comment = value[2 : len(value)-1]
		case unix.NFTA_SET_ELEM_EXPR:
			if !netlink.IsText(netlink.FindAttr(value, unix.NFTA_EXPR_NAME), "counter") {
				return errForm
			}
			p.Counter = true
		case unix.NFTA_SET_ELEM_EXPIRATION, unix.NFTA_SET_ELEM_PAD:
		default:
			return errForm
		}
	}
	if !boundary && (s.set.Verdicts != (p.Kind != 0) || (len(s.set.Data) > 0) != (len(p.Data) > 0)) {
		return errForm
	}
	return s.compareElement(key, keyEnd, boundary, &p)
}

// compareElement makes an id from the keys, and looks up the element. The lookup for an interval
// with one field comes later, when its end is known.
func (s *setComparer) compareElement(key, keyEnd []byte, boundary bool, p *ruleset.Packed) error {
	if s.set.Interval && len(s.set.Key) == 1 {
		if len(key) != s.set.Key[0].Size() || keyEnd != nil {
			return errForm
		}
		b := bound{key: s.keep(key), end: boundary}
		if p.Kind != 0 || p.Data != nil || p.Comment != nil || p.Counter || p.Timeout != 0 {
			more := *p
			more.Comment, more.Chain, more.Data = s.keep(p.Comment), s.keep(p.Chain), s.keep(p.Data)
			b.more = &more
		}
		s.bounds = append(s.bounds, b)
		return nil
	}
	var ok bool
	if s.id, ok = unpack(s.id[:0], s.set.Key, key); !ok || boundary {
		return errForm
	}
	if s.set.Interval {
		if keyEnd == nil {
			keyEnd = key
		}
		if s.id, ok = unpack(s.id, s.set.Key, keyEnd); !ok {
			return errForm
		}
	} else if keyEnd != nil {
		return errForm
	}
	p.ID = s.id
	s.lookUp(p)
	return nil
}

// keep copies bytes to memory that stays valid.
func (s *setComparer) keep(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if cap(s.kept)-len(s.kept) < len(b) {
		s.kept = make([]byte, 0, max(len(b), 64<<10))
	}
	start := len(s.kept)
	s.kept = append(s.kept, b...)
	return s.kept[start:len(s.kept):len(s.kept)]
}

func (s *setComparer) lookUp(p *ruleset.Packed) {
	if s.view.Has(p) {
		s.matched++
		if s.seen != nil {
			s.seen[string(p.ID)] = true
		}
		return
	}
	extra := *p
	extra.ID = bytes.Clone(p.ID)
	extra.Comment = bytes.Clone(p.Comment)
	extra.Chain = bytes.Clone(p.Chain)
	extra.Data = bytes.Clone(p.Data)
	s.extra = append(s.extra, extra)
}

// value reads a verdict, or the value of a map's element.
func (s *setComparer) value(nest []byte, p *ruleset.Packed) bool {
	if verdict := netlink.FindAttr(nest, unix.NFTA_DATA_VERDICT); verdict != nil {
		p.Chain = netlink.FindAttr(verdict, unix.NFTA_VERDICT_CHAIN)
		if n := len(p.Chain); n > 0 {
			p.Chain = p.Chain[:n-1]
		}
		p.Kind = verdictOf(int32(netlink.Number32(netlink.FindAttr(verdict, unix.NFTA_VERDICT_CODE))))
		return p.Kind != 0 && s.set.Verdicts
	}
	var ok bool
	s.data, ok = unpack(s.data[:0], s.set.Data, netlink.FindAttr(nest, unix.NFTA_DATA_VALUE))
	p.Data = s.data
	return ok
}

// verdictOf returns the kind of the verdict with the kernel's number, or zero if there is none.
func verdictOf(code int32) ruleset.VerdictKind {
	for kind := ruleset.Accept; kind <= ruleset.Goto; kind++ {
		if c, _ := encode.VerdictCode(kind); c == code {
			return kind
		}
	}
	return 0
}

// end makes intervals from the bounds. The kernel lists bounds in ascending or descending order.
func (s *setComparer) end() error {
	if len(s.bounds) == 0 {
		return nil
	}
	order := func(a, b bound) int {
		if c := bytes.Compare(a.key, b.key); c != 0 || a.end == b.end {
			return c
		} else if a.end {
			return -1
		}
		return 1
	}
	if !slices.IsSortedFunc(s.bounds, order) {
		if slices.Reverse(s.bounds); !slices.IsSortedFunc(s.bounds, order) {
			slices.SortFunc(s.bounds, order)
		}
	}
	for i := 0; i < len(s.bounds); i++ {
		b := &s.bounds[i]
		if b.end { // nft adds an end without a start before a set that does not start at zero
			if i == 0 {
				continue
			}
			return errForm
		}
		first := b.key
		s.id = append(append(s.id[:0], first...), first...)
		last := s.id[len(first):]
		for i := range last {
			last[i] = 0xff
		}
		if i+1 < len(s.bounds) {
			next := &s.bounds[i+1]
			if !next.end {
				return errForm
			}
			copy(last, next.key)
			decrement(last)
			i++
		}
		var p ruleset.Packed
		if b.more != nil {
			p = *b.more
		}
		p.ID = s.id
		s.lookUp(&p)
	}
	return nil
}

// decrement decrements a key.
func decrement(key []byte) {
	for i := len(key) - 1; i >= 0; i-- {
		key[i]--
		if key[i] != 0xff {
			return
		}
	}
}

// unpack removes the padding from a key or from data.
func unpack(to []byte, types []ruleset.Type, packed []byte) ([]byte, bool) {
	for i, t := range types {
		size := t.Size()
		if len(packed) < size {
			return to, false
		}
		to = append(to, packed[:size]...)
		if i == len(types)-1 && len(types) == 1 {
			return to, len(packed) == size
		}
		packed = packed[min(len(packed), encode.Padded(size)):]
	}
	return to, len(packed) == 0
}
