// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// The commands of docs/get-started.md work in their order, and print what the page says.
func TestGetStarted(t *testing.T) {
	nstest.New(t) // skips or fails
	text, err := os.ReadFile("../../docs/get-started.md")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	for _, name := range []string{"agent", "explain"} {
		err := gobuild.Build(filepath.Join(dir, "bin", name), "github.com/wayleave/wayleave/examples/"+name)
		require.NoError(t, err)
	}
	page := strings.NewReplacer(
		"/tmp/", dir+"/", "make demo\n", "bin/agent demo\n",
		"(cd examples && go build -o ../bin/explain ./explain)\n", "",
	).Replace(string(text))
	duration := regexp.MustCompile(`; \d+\.\d s in all$`)
	block := regexp.MustCompile("(?s)```(sh|text)\n(.*?)```")

	var out []byte
	for _, b := range block.FindAllStringSubmatch(page, -1) {
		if b[1] == "sh" {
			cmd := exec.CommandContext(t.Context(), "bash", "-ec", b[2])
			cmd.Dir, cmd.Stderr = dir, os.Stderr
			out, err = cmd.Output()
			require.NoError(t, err, "%s\n%s", b[2], out)
			continue
		}
		for line := range strings.Lines(b[2]) {
			require.Contains(t, string(out), duration.ReplaceAllString(strings.TrimRight(line, "\n"), ""))
		}
	}
}
