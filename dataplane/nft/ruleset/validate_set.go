// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"bytes"
	"math"
	"slices"
	"time"
)

// checkSet checks a set without its elements, and reports whether it is valid.
func (v *validator) checkSet(s *Set) bool {
	before := len(v.errs)
	if !ValidName(s.Name) {
		v.addf("not a name")
	}
	v.comment(s.Comment)
	v.key(s.Key)
	if len(s.Data) > 0 {
		v.key(s.Data)
	}
	if s.Interval && len(s.Key) == 1 && s.Key[0].HostOrder() {
		v.addf("intervals of %s, which is in host byte order", s.Key[0])
	}
	hostOrder := func(t Type) bool { return t.HostOrder() && t != TypeIfname }
	if s.Interval && len(s.Key) > 1 && slices.ContainsFunc(s.Key, hostOrder) {
		v.addf("intervals of a concatenation with a part in host byte order, which nft 1.0.6 reads wrongly")
	}
	if s.Verdicts && len(s.Data) > 0 {
		v.addf("data beside verdicts")
	}
	for _, d := range []time.Duration{s.Timeout, s.GCInterval} {
		v.duration(d)
	}
	if s.GCInterval > math.MaxUint32*time.Millisecond {
		v.addf("gc-interval of %s: want milliseconds in 32 bits", s.GCInterval)
	}
	if s.Size != 0 && len(s.Elements) > int(s.Size) {
		v.addf("%d elements, at most %d", len(s.Elements), s.Size)
	}
	return !v.failedSince(before)
}

func (v *validator) duration(d time.Duration) {
	if d < 0 || d%time.Millisecond != 0 {
		v.addf("time of %s: want whole milliseconds", d)
	}
}

func (v *validator) comment(text string) {
	if len(text) > MaxComment || !printable(text) {
		v.addf("comment %q: at most %d printable bytes, no quotation mark", text, MaxComment)
	}
}

// key checks the types of a set's key.
func (v *validator) key(key []Type) {
	if len(key) == 0 {
		v.addf("no key")
	}
	if len(key) > maxParts {
		v.addf("key of %d parts, at most %d", len(key), maxParts)
	}
	size := 0
	for _, t := range key {
		switch {
		case t.Size() == 0:
			v.addf("unknown type %d", t)
		case t.info().noSet:
			v.addf("a set of %s, for which nft has no type", t)
		}
		size += (t.Size() + 3) / 4 * 4
	}
	if size > MaxKey {
		v.addf("key of %d bytes, at most %d", size, MaxKey)
	}
}

// checkElement checks one element of a set by itself, and reports whether it is valid.
func (v *validator) checkElement(s *Set, e *Element) bool {
	if !v.checkKey(s, e) {
		return false
	}
	before := len(v.errs)
	switch {
	case s.Verdicts && e.Verdict == nil:
		v.addf("element %s: no verdict", elementText(s.Key, *e))
	case !s.Verdicts && e.Verdict != nil:
		v.addf("element %s: a verdict in a set", elementText(s.Key, *e))
	case s.Verdicts:
		v.verdict(*e.Verdict)
	}
	if len(e.Data) != len(s.Data) {
		v.addf("element %s: data of %d parts, want %d", elementText(s.Key, *e), len(e.Data), len(s.Data))
		return false
	}
	for i, value := range e.Data {
		v.value(s.Data[i], value)
	}
	if e.Comment != "" {
		v.comment(e.Comment)
	}
	if e.Timeout != 0 {
		v.duration(e.Timeout)
		if !s.Timed() {
			v.addf("element %s: a timeout in a set without timeouts", elementText(s.Key, *e))
		}
	}
	return !v.failedSince(before)
}

// checkKey checks the key of one element of a set, and reports whether it is valid.
func (v *validator) checkKey(s *Set, e *Element) bool {
	before := len(v.errs)
	if len(e.Key) != len(s.Key) {
		v.addf("element with %d parts, want %d", len(e.Key), len(s.Key))
		return false
	}
	for i, value := range e.Key {
		v.value(s.Key[i], value)
	}
	if e.Last == nil && e.Ends == nil || v.failedSince(before) {
		return !v.failedSince(before)
	}
	switch {
	case !s.Interval || e.Last != nil && len(s.Key) != 1 || e.Ends != nil && len(e.Ends) != len(s.Key) ||
		e.Last != nil && e.Ends != nil:
		v.addf("element %s: a range is not allowed here", elementText(s.Key, *e))
		return false
	case e.Last != nil:
		v.checkRange(s, e, 0, e.Last)
	}
	for i, end := range e.Ends {
		if end != nil {
			v.checkRange(s, e, i, end)
		}
	}
	return !v.failedSince(before)
}

func (v *validator) checkRange(s *Set, e *Element, part int, last Value) {
	first := e.Key[part]
	switch {
	case len(first) != len(last) || bytes.Compare(first, last) > 0:
		v.addf("element %s: the range ends before it begins", elementText(s.Key, *e))
	case s.Key[part].Bits() && !bytes.Equal(first, last):
		v.addf("element %s: a range of %s, which nft cannot express", elementText(s.Key, *e), s.Key[part])
	case s.Key[part].HostOrder() && !bytes.Equal(first, last):
		v.addf(
			"element %s: a range of %s: the kernel cannot compare ranges in host byte order", elementText(s.Key, *e),
			s.Key[part],
		)
	}
}

// anonymous checks the elements of an anonymous set or verdict map.
func (v *validator) anonymous(fields []Field, elements []Element, verdicts bool) {
	before := len(v.errs)
	v.fields(fields)
	if len(elements) == 0 {
		v.addf("empty anonymous %s", (&Set{Verdicts: verdicts}).keyword())
	}
	if v.failedSince(before) {
		return
	}
	s := &Set{Key: fieldTypes(fields), Interval: true, Verdicts: verdicts}
	for i := range elements {
		if e := &elements[i]; !v.checkElement(s, e) {
			return // invalid elements cannot be sorted
		} else if e.Comment != "" {
			v.addf("element %s: a comment in an anonymous set", elementText(s.Key, *e))
		}
	}
	st := newStore(s)
	var recs []byte
	for i := range elements {
		recs = st.append(recs, &elements[i])
	}
	sortRecords(recs, st.stride)
	v.checkNeighbours(s, st, recs)
}

func (v *validator) value(t Type, value Value) {
	if len(value) != t.Size() {
		v.addf("%s of %d bytes, want %d", t, len(value), t.Size())
		return
	}
	if most := t.info().most; most != 0 && t.number(value) > uint32(most) {
		v.addf("%s of %d, at most %d", t, t.number(value), most)
	}
	if t == TypeIfname && (value[IfnameSize-1] != 0 || !ValidIfname(ifnameString(value))) {
		v.addf("%q is not an interface name", ifnameString(value))
	}
}
