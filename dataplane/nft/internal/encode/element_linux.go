// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"
	"time"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// maxElements limits the length in bytes of the list of elements in one message. The length is a
// 16-bit number. If it overflows, elements are lost without an error.
const maxElements = 60 << 10

// element is an element in the kernel's form. If a key or data has several fields, they are joined,
// and each is padded to words.
type element struct {
	key []byte
	// end is the last key of an interval of a concatenation, or nil for other elements.
	end []byte
	// boundary is set if the element ends an interval of a set with one field: the interval ends
	// before key. Such an element has only a key.
	boundary bool
	// code and chain are the verdict of a verdict map. data is the value of another map.
	verdict bool
	code    int32
	chain   string
	data    []byte
	comment string
	timeout time.Duration
}

// plain reports whether the element has only a key, and perhaps a verdict. Nearly all elements are
// plain.
func (e *element) plain() bool {
	return e.end == nil && e.data == nil && e.comment == "" && e.timeout == 0
}

// appendElement appends an element of a list.
func appendElement(a *netlink.Attrs, e *element) {
	if e.plain() {
		appendPlain(a, e)
		return
	}
	elem := a.Begin(unix.NFTA_LIST_ELEM)
	appendData(a, unix.NFTA_SET_ELEM_KEY, e.key)
	if e.end != nil {
		appendData(a, AttrSetElemKeyEnd, e.end)
	}
	if e.data != nil {
		appendData(a, unix.NFTA_SET_ELEM_DATA, e.data)
	}
	if e.verdict {
		appendVerdict(a, unix.NFTA_SET_ELEM_DATA, e.code, e.chain)
	}
	if e.timeout != 0 {
		a.Uint64(unix.NFTA_SET_ELEM_TIMEOUT, uint64(e.timeout.Milliseconds()))
	}
	if e.comment != "" {
		a.Bytes(
			unix.NFTA_SET_ELEM_USERDATA, userdata.AppendString(nil, userdata.NFTNL_UDATA_SET_ELEM_COMMENT, e.comment),
		)
	}
	a.End(elem)
}

// appendData appends a value as nested data.
func appendData(a *netlink.Attrs, typ uint16, value []byte) {
	nest := a.Begin(typ)
	a.Bytes(unix.NFTA_DATA_VALUE, value)
	a.End(nest)
}

// appendCounter appends a counter that a set gives to each of its elements.
func appendCounter(a *netlink.Attrs, typ uint16) {
	nest := a.Begin(typ)
	a.String(unix.NFTA_EXPR_NAME, "counter")
	a.End(a.Begin(unix.NFTA_EXPR_DATA))
	a.End(nest)
}

// Sizes of the attributes that appendPlain writes.
const (
	header   = 4
	nest     = 0x8000
	flagsLen = header + 4
	// verdictLen is the size of a verdict without a chain: data, verdict, code.
	verdictLen = header + header + header + 4
)

// appendPlain writes a key and a verdict. It computes all lengths at once, because there are
// hundreds of thousands of elements.
func appendPlain(a *netlink.Attrs, e *element) {
	padded := (len(e.key) + 3) &^ 3
	total, chain := header+2*header+padded, 0
	if e.boundary {
		total += flagsLen
	}
	if e.verdict {
		total += verdictLen
		if e.chain != "" {
			chain = header + len(e.chain) + 1
			total += (chain + 3) &^ 3
		}
	}
	b := a.Extend(total)
	put := func(length int, typ uint16) {
		binary.NativeEndian.PutUint16(b, uint16(length))
		binary.NativeEndian.PutUint16(b[2:], typ)
		b = b[header:]
	}
	put(total, unix.NFTA_LIST_ELEM|nest)
	if e.boundary {
		put(flagsLen, unix.NFTA_SET_ELEM_FLAGS)
		binary.BigEndian.PutUint32(b, unix.NFT_SET_ELEM_INTERVAL_END)
		b = b[4:]
	}
	put(2*header+padded, unix.NFTA_SET_ELEM_KEY|nest)
	put(header+len(e.key), unix.NFTA_DATA_VALUE)
	clear(b[copy(b, e.key):padded])
	b = b[padded:]
	if !e.verdict {
		return
	}
	verdict := verdictLen + (chain+3)&^3
	put(verdict, unix.NFTA_SET_ELEM_DATA|nest)
	put(verdict-header, unix.NFTA_DATA_VERDICT|nest)
	put(header+4, unix.NFTA_VERDICT_CODE)
	binary.BigEndian.PutUint32(b, uint32(e.code))
	if chain > 0 {
		b = b[4:]
		put(chain, unix.NFTA_VERDICT_CHAIN)
		clear(b[copy(b, e.chain):])
	}
}
