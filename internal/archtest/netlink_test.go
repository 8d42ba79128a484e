// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// vishvananda is a netlink library. If the kernel's state changes during a list, it returns a part
// of the list, with an error that callers often ignore.
const vishvananda = "github.com/vishvananda/netlink"

// rawDump matches the names of its functions and methods that list objects.
var rawDump = regexp.MustCompile(`^((Link|Addr|Route|Neigh|NeighProxy|Rule|Nexthop|Qdisc|Class|Filter|` +
	`Vdpa[A-Za-z]*|Devlink[A-Za-z]*|Genl[A-Za-z]*|Rdma[A-Za-z]*|Socket[A-Za-z]*|GTPPDP|Xfrm[A-Za-z]*|` +
	`Bridge[A-Za-z]*|Conntrack[A-Za-z]*)List(Filtered[A-Za-z]*|Execute|Iter)?|` +
	`SocketDiag[A-Za-z]*|Ipset(List|ListAll)|BridgeVlanList(Filtered)?|VDPAGetDev[A-Za-z]*List)$`)

// compared is the benchmark of those functions.
const compared = "internal/rtnl/library_bench_linux_test.go"

// rawDumps returns the places where a file calls a function or method of such a name.
func rawDumps(src source) (offenders []string) {
	uses := false
	for _, spec := range src.file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		uses = uses || err == nil && path == vishvananda
	}
	if !uses {
		return nil
	}
	ast.Inspect(src.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && rawDump.MatchString(sel.Sel.Name) {
			offenders = append(offenders,
				fmt.Sprintf("%s:%d: %s", src.path, src.fset.Position(sel.Pos()).Line, sel.Sel.Name))
		}
		return true
	})
	return offenders
}

// TestNoRawDumps checks that lists of the kernel's state use internal/rtnl, which repeats an
// interrupted dump. It includes tests, because a test that uses a part of a list fails rarely.
func TestNoRawDumps(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		if src.path != compared {
			offenders = append(offenders, rawDumps(src)...)
		}
	}
	report(t, "raw dumps of "+vishvananda+"; use internal/rtnl", offenders)
}

func TestRawDumpsAreFound(t *testing.T) {
	for name, raw := range map[string]bool{
		"LinkList": true, "RouteListFiltered": true, "RouteListFilteredIter": true, "NeighProxyList": true,
		"RuleList": true, "AddrList": true, "BridgeVlanList": true, "LinkByName": false, "RouteAdd": false,
		"ConntrackTableFlush": false, "ConntrackTableList": true,
	} {
		require.Equal(t, raw, rawDump.MatchString(name), name)
	}
}
