// SPDX-License-Identifier: Apache-2.0

package archtest_test

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed maps each package to the packages of the repository that it imports. Test files may
// import more. A name that ends in "/..." means the folder and all folders below it.
var allowed = map[string][]string{
	"selector":            {},
	"selector/labelindex": {"selector", "internal/idtable"},
	"internal/idtable":    {},
	"policy":              {"selector"},
	"policy/verdict":      {"policy", "selector"},
	"policy/probe":        {"policy", "policy/verdict"},
	"dataplane":           {"policy", "internal/dispute"},
	"dataplane/dptest":    {"dataplane", "policy"},
	"dataplane/dptest/conformance": {
		"policy", "policy/worlds", "dataplane", "dataplane/dptest", "calcgraph", "internal/worldtext",
	},
	"calcgraph":        {"policy", "selector", "selector/labelindex", "dataplane", "internal/idtable"},
	"calcgraph/replay": {"policy", "dataplane", "calcgraph"},
	"dataplane/nft": {
		"policy", "dataplane", "dataplane/nft/ruleset", "dataplane/nft/render", "dataplane/nft/applier",
		"dataplane/nft/conntrack", "dataplane/nft/internal/flowtable", "dataplane/nft/internal/observed",
		"dataplane/nft/internal/owners", "dataplane/nft/internal/late", "dataplane/nft/internal/ports",
		"dataplane/nft/internal/rcu", "dataplane/nft/internal/revoke",
	},
	"dataplane/nft/render": {
		"policy", "dataplane", "dataplane/nft/ruleset", "dataplane/nft/internal/build",
		"dataplane/nft/internal/classify", "dataplane/nft/internal/match", "dataplane/nft/internal/outcome",
		"dataplane/nft/internal/reuse", "dataplane/nft/internal/sets", "dataplane/nft/internal/testhook",
	},
	"dataplane/nft/internal/nfttest": {
		"policy", "policy/verdict", "dataplane", "dataplane/dptest", "calcgraph", "dataplane/nft/internal/testhook",
		"dataplane/nft/render", "dataplane/nft/ruleset", "internal/netns",
		"internal/netns/nstest", "internal/txtar", "internal/worldtext", "policy/worlds",
	},
	"dataplane/nft/internal/testhook": {},
	"dataplane/nft/applier": {
		"dataplane/nft/ruleset", "dataplane/nft/internal/encode", "dataplane/nft/internal/kernel",
		"dataplane/nft/internal/nfnl", "dataplane/nft/internal/rcu", "dataplane/nft/internal/readback",
		"internal/dispute", "internal/netlink",
	},
	"dataplane/nft/ruleset":          {},
	"dataplane/nft/ruleset/simulate": {"dataplane/nft/ruleset"},
	"dataplane/nft/prove": {
		"policy", "policy/verdict", "dataplane/nft/ruleset", "dataplane/nft/ruleset/simulate",
	},
	"dataplane/nft/conntrack":      {"internal/netlink"},
	"dataplane/nft/flows":          {"policy", "dataplane/nft/conntrack", "dataplane/nft/nflog"},
	"dataplane/nft/nflog":          {"policy", "internal/netlink"},
	"dataplane/nft/internal/build": {"dataplane/nft/ruleset", "dataplane/nft/internal/sets"},
	"dataplane/nft/internal/classify": {
		"dataplane", "dataplane/nft/ruleset", "dataplane/nft/internal/build", "dataplane/nft/internal/match",
		"dataplane/nft/internal/reuse", "dataplane/nft/internal/sets",
	},
	"dataplane/nft/internal/encode": {"dataplane/nft/ruleset", "dataplane/nft/internal/nfnl", "internal/netlink"},
	"dataplane/nft/internal/flowtable": {
		"dataplane", "dataplane/nft/ruleset", "dataplane/nft/internal/build", "dataplane/nft/internal/encode",
		"dataplane/nft/internal/kernel", "dataplane/nft/internal/match", "dataplane/nft/internal/nfnl",
		"dataplane/nft/internal/readback", "dataplane/nft/internal/sets", "internal/nsthread",
	},
	"dataplane/nft/internal/kernel": {},
	"dataplane/nft/internal/late": {
		"policy", "dataplane/nft/ruleset", "dataplane/nft/conntrack", "dataplane/nft/internal/build",
		"dataplane/nft/internal/encode", "dataplane/nft/internal/match", "dataplane/nft/internal/nfnl",
		"dataplane/nft/internal/readback", "dataplane/nft/internal/sets", "internal/netlink",
	},
	"dataplane/nft/internal/match": {"policy", "dataplane", "dataplane/nft/ruleset", "dataplane/nft/internal/sets"},
	"dataplane/nft/internal/nfnl":  {"internal/netlink"},
	"dataplane/nft/internal/observed": {
		"dataplane/interfaces", "dataplane/nft/render", "dataplane/nft/ruleset", "internal/nsthread", "internal/rtnl",
	},
	"dataplane/nft/internal/outcome": {
		"policy", "dataplane", "dataplane/nft/ruleset", "dataplane/nft/internal/build",
		"dataplane/nft/internal/classify", "dataplane/nft/internal/match", "dataplane/nft/internal/reuse",
		"dataplane/nft/internal/sets",
	},
	"dataplane/nft/internal/owners": {"policy", "dataplane", "dataplane/nft/internal/reuse"},
	"dataplane/nft/internal/ports": {
		"dataplane/nft/ruleset", "dataplane/nft/internal/build", "dataplane/nft/internal/sets",
	},
	"dataplane/nft/internal/rcu": {},
	"dataplane/nft/internal/readback": {
		"dataplane/nft/ruleset", "dataplane/nft/internal/encode", "dataplane/nft/internal/nfnl", "internal/netlink",
	},
	"dataplane/nft/internal/reuse": {},
	"dataplane/nft/internal/revoke": {
		"policy", "dataplane/nft/ruleset", "dataplane/nft/ruleset/simulate", "dataplane/nft/conntrack",
		"dataplane/nft/internal/late", "dataplane/nft/internal/reuse", "internal/rtnl",
	},
	"dataplane/nft/internal/sets": {"policy", "dataplane", "dataplane/nft/ruleset", "dataplane/nft/internal/reuse"},
	"dataplane/interfaces":        {"internal/rtnl"},
	"dataplane/routes": {
		"policy", "dataplane", "internal/dispute", "internal/rtnl", "internal/nsthread",
	},
	"dataplane/wire":                  {"policy", "dataplane", "dataplane/wire/..."},
	"dataplane/wire/internal/codec":   {"policy", "dataplane", "dataplane/wire/wirepb"},
	"dataplane/wire/internal/frame":   {},
	"dataplane/wire/internal/parts":   {"dataplane", "dataplane/wire/internal/codec", "dataplane/wire/wirepb"},
	"dataplane/wire/internal/sockets": {},
	"dataplane/wire/internal/state":   {"policy", "dataplane", "dataplane/dptest"},
	"dataplane/wire/policysync": {
		"policy", "dataplane", "dataplane/dptest", "dataplane/wire/internal/codec", "dataplane/wire/internal/parts",
		"dataplane/wire/internal/sockets", "dataplane/wire/internal/state", "dataplane/wire/policysync/policysyncpb",
		"internal/nsthread",
	},
	"dataplane/felix": {"policy", "dataplane", "dataplane/felix/..."},
	"dataplane/felix/internal/translate": {
		"policy", "dataplane", "dataplane/felix/felixpb",
	},
	"dataplane/wireguard": {
		"policy", "dataplane", "dataplane/interfaces", "dataplane/nft/applier", "dataplane/nft/ruleset",
		"dataplane/routes", "internal/nsthread",
	},
	"datastore":                   {"policy", "internal/packed"},
	"datastore/etcd":              {"policy", "datastore"},
	"datastore/kubernetes":        {"policy", "datastore", "kubernetes/..."},
	"datastore/kubernetes/report": {"policy", "dataplane", "kubernetes/..."},
	"internal/archtest":           {},
	"internal/fieldwalk":          {},
	"internal/netns":              {"internal/nsthread"},
	"internal/nsthread":           {},
	"internal/netns/nstest":       {"internal/netns"},
	"policy/worlds":               {"policy"},
	"internal/worldtext":          {"policy"},
	"internal/workload":           {"policy"},
	"internal/packed":             {"policy"},
	"internal/dispute":            {},
	"internal/rtnl":               {"internal/netlink", "internal/nsthread"},
	"internal/netlink":            {},
	"internal/txtar":              {},
	"kubernetes/convert":          {"policy", "selector", "kubernetes/convert/..."},
	"kubernetes/manifest":         {"policy", "kubernetes/convert/..."},
	"kubernetes/pods":             {"policy", "kubernetes/convert/..."},
	"kubernetes/convert/...":      {},
	"examples/...":                {"..."},
	"tools/...":                   {},
	"tools/cluster":               {"tools/cluster/internal/..."},
	"tools/cluster/internal/...":  {"tools/cluster/internal/..."},
	"tools/cluster/gauge":         {"tools/cluster/internal/measure"},
	"tools/cluster/prober":        {"tools/cluster/internal/probe"},
	".":                           {},

	"datastore/kubernetes/fleet": {
		"policy", "dataplane/...", "calcgraph", "datastore/...", "kubernetes/...",
	},

	// Only tests and the command fleet import it.
	"datastore/kubernetes/internal/apiserver": {},
}

// pure packages do not depend on the machine, on the time or on logging.
var pure = []string{
	"selector", "selector/labelindex", "policy", "policy/verdict", "policy/probe",
	"dataplane/nft/ruleset", "dataplane/nft/ruleset/simulate", "dataplane/nft/render", "internal/idtable",
}

// impure has the packages that pure packages must not import.
var impure = []string{"os", "net", "time", "context", "log", "log/slog", "syscall", "golang.org/x/sys/unix"}

// durations are pure packages whose data has durations. They may import time for durations, but
// must not read a clock.
var durations = []string{"dataplane/nft/ruleset", "dataplane/nft/render"}

func TestImportsPointDown(t *testing.T) {
	var offenders []string
	seen, used := map[string]bool{}, map[[2]string]bool{}
	for _, src := range sources(t) {
		if src.isTest() {
			continue
		}
		row, ok := rowOf(src.dir)
		if !ok {
			offenders = append(offenders,
				fmt.Sprintf("%s: package %s has no row in the table of imports", src.path, src.dir))
			continue
		}
		seen[row] = true
		for _, imported := range importsOf(src) {
			own, inside := strings.CutPrefix(imported, module+"/")
			if !inside {
				continue
			}
			entry := slices.IndexFunc(allowed[row], func(entry string) bool { return covers(entry, own) })
			if entry < 0 {
				offenders = append(offenders, fmt.Sprintf("%s: must not import %s", src.path, own))
				continue
			}
			used[[2]string{row, allowed[row][entry]}] = true
		}
	}
	for row, entries := range allowed {
		if !seen[row] {
			offenders = append(offenders, fmt.Sprintf("table of imports: no package %s", row))
		}
		for _, entry := range entries {
			if !used[[2]string{row, entry}] {
				offenders = append(offenders, fmt.Sprintf("table of imports: %s does not import %s", row, entry))
			}
		}
	}
	slices.Sort(offenders)
	report(t, "imports that are not in the table", slices.Compact(offenders))
}

func TestPurePackagesStayPure(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		graphNode := src.dir == "calcgraph" && !strings.HasSuffix(src.path, "/runner.go")
		if src.isTest() || !(graphNode || slices.Contains(pure, src.dir)) {
			continue
		}
		for _, imported := range importsOf(src) {
			if imported == "time" && slices.Contains(durations, src.dir) && !readsClock(src) {
				continue
			}
			if slices.Contains(impure, imported) {
				offenders = append(offenders, fmt.Sprintf("%s: imports %s", src.path, imported))
			}
		}
	}
	report(t, "impure imports of pure packages", offenders)
}

// readsClock reports whether a file uses more of package time than Duration and its units.
func readsClock(src source) bool {
	reads := false
	ast.Inspect(src.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" {
			reads = reads ||
				!slices.Contains([]string{"Duration", "Millisecond", "Second", "Minute", "Hour"}, sel.Sel.Name)
		}
		return true
	})
	return reads
}

// TestDirectDependencies checks the dependencies of the core module. A new one needs a reason in
// docs/design.md.
func TestDirectDependencies(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	direct := map[string]bool{}
	inBlock := false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "require (":
			inBlock = true
		case line == ")":
			inBlock = false
		case inBlock || strings.HasPrefix(line, "require "):
			fields := strings.Fields(strings.TrimPrefix(line, "require "))
			if len(fields) >= 2 && !strings.Contains(line, "// indirect") {
				direct[fields[0]] = true
			}
		}
	}
	require.Equal(t, []string{
		"github.com/gaissmai/bart",
		"github.com/google/nftables",
		"github.com/mdlayher/netlink",
		"github.com/stretchr/testify",
		"github.com/vishvananda/netlink",
		"golang.org/x/sys",
	}, slices.Sorted(maps.Keys(direct)))
}

// TestTestifyStaysInTests checks that only tests and their helpers import the assertion library.
func TestTestifyStaysInTests(t *testing.T) {
	var offenders []string
	for _, src := range sources(t) {
		// Only tests import these.
		helper := src.dir == "dataplane/dptest/conformance" || src.dir == "internal/netns/nstest" ||
			src.dir == "dataplane/nft/internal/nfttest" || src.dir == "datastore/kubernetes/internal/apiserver"
		if src.isTest() || helper {
			continue
		}
		for _, imported := range importsOf(src) {
			if strings.HasPrefix(imported, "github.com/stretchr/") || imported == "testing" {
				offenders = append(offenders, fmt.Sprintf("%s: imports %s", src.path, imported))
			}
		}
	}
	report(t, "test libraries in production code", offenders)
}

func rowOf(dir string) (string, bool) {
	if _, ok := allowed[dir]; ok {
		return dir, true
	}
	for parent := dir; parent != "."; parent = filepath.ToSlash(filepath.Dir(parent)) {
		if _, ok := allowed[parent+"/..."]; ok {
			return parent + "/...", true
		}
	}
	return "", false
}

// covers reports whether an entry of the table includes a package.
func covers(entry, pkg string) bool {
	folder, whole := strings.CutSuffix(entry, "...")
	return entry == pkg || whole && strings.HasPrefix(pkg+"/", folder)
}

func importsOf(src source) []string {
	var out []string
	for _, spec := range src.file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, path)
		}
	}
	return out
}
