// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/examples/internal/cli"
	"github.com/wayleave/wayleave/kubernetes/manifest"
)

func planCommand() cli.Command {
	return cli.Command{
		Name: "plan", Args: "FOLDER", Summary: "show the changes that other manifests would cause",
		About: `Prints what would change if the agent's manifests were those in FOLDER:

  - the objects that are added, changed and removed;
  - the commands of nft and ip with the same effect as the changes of the kernel;
  - the flows that would get another verdict.

To find these flows, it tries each port that policies or pods mention, between all pods, and between pods and
one address of each network that policies mention. It changes nothing.`,
		Examples: []string{"plan new-manifests", "plan --on-top one-policy"},
		Prepare: func(flags *flag.FlagSet) cli.Action {
			var o output
			o.declareTimeout(flags, planTimeout)
			o.declareSocket(flags)
			onTop := flags.Bool("on-top", false,
				"keep the agent's manifests, except for objects that FOLDER has, too")
			return func(ctx context.Context, c cli.Console, args []string) error {
				if len(args) != 1 {
					return cli.Usagef("plan: want one FOLDER")
				}
				files, err := readFolder(args[0])
				if err != nil {
					return err
				}
				p, err := send[api.Plan](ctx, c, o, http.MethodPost, "/v1/plan",
					api.Folder{Files: files, OnTop: *onTop})
				if err != nil {
					return err
				}
				return o.print(c, p, planText(c.Width(), p))
			}
		},
	}
}

// readFolder reads the manifests in a folder.
func readFolder(path string) (map[string]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, noFolder(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") ||
			!slices.Contains(manifest.Extensions(), filepath.Ext(name)) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(path, name))
		if err != nil {
			return nil, err
		}
		files[name] = string(data)
	}
	return files, nil
}

func planText(width int, p api.Plan) string {
	var out strings.Builder
	section := func(title string, lines []string, nothing string) {
		fmt.Fprintf(&out, "%s:\n", title)
		limit := width
		if title == "Kernel" { // these are commands, which users may copy
			limit = 0
		}
		for _, line := range lines {
			out.WriteString(cli.Fold("  "+line+"\n", limit))
		}
		if len(lines) == 0 {
			fmt.Fprintf(&out, "  %s\n", nothing)
		}
	}
	if len(p.Rejected) > 0 {
		section("Rejected, so absent or failing closed", p.Rejected, "")
	}
	section("Objects", p.Objects, "none changes")
	var kernel []string
	if text := strings.TrimRight(p.Kernel, "\n"); text != "" {
		kernel = strings.Split(text, "\n")
	}
	section("Kernel", kernel, "nothing changes")
	var flips []string
	for _, f := range p.Flips {
		flips = append(flips,
			fmt.Sprintf("%s -> %s: %s: %s, was %s", strings.Join(f.From, ", "), strings.Join(f.To, ", "),
				strings.Join(f.Ports, " "), f.After, f.Before),
			"  was: "+f.Was, "  now: "+f.Now)
	}
	section("Flows", flips, cmp.Or(p.NotTried, fmt.Sprintf("of %d that were tried, none changes its verdict", p.Flows)))
	return out.String()
}
