// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"bytes"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// The kernel lists an expression with all attributes that we set, in its own order, and with
// further attributes that have defaults. So each attribute that we would write is compared, and
// further ones are ignored. No other process can have added these, because the hash in the rule's
// userdata would be missing or different.

// sameExprs reports whether the kernel's list of expressions consists of ours and no others.
func sameExprs(ours, theirs []byte) bool {
	if bytes.Equal(ours, theirs) {
		return true
	}
	for {
		_, a, restA, okA := netlink.NextAttr(ours)
		_, b, restB, okB := netlink.NextAttr(theirs)
		if !okA || !okB {
			return okA == okB
		}
		if !sameExpr(a, b) {
			return false
		}
		ours, theirs = restA, restB
	}
}

func sameExpr(ours, theirs []byte) bool {
	name := netlink.FindAttr(ours, unix.NFTA_EXPR_NAME)
	if !bytes.Equal(name, netlink.FindAttr(theirs, unix.NFTA_EXPR_NAME)) {
		return false
	}
	return sameData(
		netlink.Text(name), netlink.FindAttr(ours, unix.NFTA_EXPR_DATA), netlink.FindAttr(theirs, unix.NFTA_EXPR_DATA),
	)
}

// sameData compares the attributes of an expression.
func sameData(name string, ours, theirs []byte) bool {
	for typ, a := range netlink.Attributes(ours) {
		if name == "lookup" && typ == unix.NFTA_LOOKUP_SET_ID || name == "dynset" && typ == unix.NFTA_DYNSET_SET_ID {
			continue // the id is valid only within a transaction
		}
		b := netlink.FindAttr(theirs, typ)
		switch {
		case b == nil:
			return false
		case bytes.Equal(a, b):
		case name == "lookup" && typ == unix.NFTA_LOOKUP_SET && sameAnonymous(a, b):
		case name == "immediate" && typ == unix.NFTA_IMMEDIATE_DATA && sameNested(a, b):
		default:
			return false
		}
	}
	return true
}

// sameAnonymous reports whether theirs is a name that the kernel made from ours, the pattern of an
// anonymous set's name.
func sameAnonymous(ours, theirs []byte) bool {
	pattern, is := strings.CutSuffix(netlink.Text(ours), "%d")
	return is && strings.HasPrefix(netlink.Text(theirs), pattern)
}

// sameNested reports whether all data of ours is in theirs, a nest of attributes. A verdict is a
// nest inside it, whose type may have a flag.
func sameNested(ours, theirs []byte) bool {
	for typ, a := range netlink.Attributes(ours) {
		b := netlink.FindAttr(theirs, typ)
		if b == nil || !bytes.Equal(a, b) && !(typ == unix.NFTA_DATA_VERDICT && sameNested(a, b)) {
			return false
		}
	}
	return true
}
