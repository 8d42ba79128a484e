// SPDX-License-Identifier: Apache-2.0

package nfttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/txtar"
	"github.com/wayleave/wayleave/internal/worldtext"
	"github.com/wayleave/wayleave/policy"
)

// NumberedCase is a section of testdata/cases/*.txtar. Some of its lines change resources, in the
// language of internal/worldtext. Other lines have a flow and its expected verdict, after the
// changes of all lines above them:
//
//	pass TCP 203.0.113.7 10.0.0.1 port 80 [sport 40000] [icmp 3/4] [dscp 46] [in eth1] [out eth1]
//	    [known|invalid] [was 198.51.100.1:30080]
//	drop ...
//	settings {"keepInvalid": true}
//
// Parts in brackets are optional. The word "known" means that the packet belongs to an established
// connection, and "invalid" that connection tracking finds the packet invalid. The address after
// "was" is the destination before translation.
//
// The words after "in" and "out" are the interfaces by which the packet enters and leaves the node.
// If "in" is missing, the source address decides. If "out" is missing, the destination address
// decides. An address of a workload then means the workload's interface. An address of the node
// means no interface, and any other address means eth0.
//
// A line with settings has a policy.HostConfig in JSON. It must come before the first flow. If a
// file has a section "world", its lines come before the lines of each case of the file.
type NumberedCase struct {
	Name, text string
}

// NumberedCases reads the sections of DIR/cases/*.txtar.
func NumberedCases(t *testing.T, dir string) (out []NumberedCase) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "cases", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		common := ""
		for _, f := range txtar.Parse(data).Files {
			if f.Name == "world" {
				common = string(f.Data)
				continue
			}
			out = append(out, NumberedCase{f.Name, common + string(f.Data)})
		}
	}
	return out
}

// Run processes the lines of the case. For each line with a flow, it calls the function flow with
// this line. If resources have changed since the previous flow, it first calls the function world.
func (n NumberedCase) Run(
	t *testing.T, classes render.ClassesConfig, world func(*Cluster), flow func(c *Cluster, line string),
) {
	t.Helper()
	var host policy.HostConfig
	var c *Cluster
	var updates []string
	flows := 0
	for _, line := range append(strings.Split(n.text, "\n"), "pass") { // the last line ends the lines before
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case word == "settings":
			require.Nil(t, c, "settings come first")
			require.NoError(t, json.Unmarshal([]byte(rest), &host))
			continue
		case word != "pass" && word != "drop":
			updates = append(updates, line)
			continue
		case c == nil:
			c = NewNode(t, render.Config{Classes: classes, InterfacePrefix: "wl", Host: host})
		}
		if len(updates) > 0 {
			parsed, _, err := worldtext.Parse(strings.Join(updates, "\n"))
			require.NoError(t, err)
			c.Play(t, parsed)
			updates = nil
			world(c)
		}
		if rest != "" {
			flows++
			flow(c, line)
		}
	}
	require.Positive(t, flows)
}
