// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/gobuild"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// codeBlock matches a block of a page: its indentation, its tag and its text.
var codeBlock = regexp.MustCompile("(?ms)^( *)```([^\n]*)\n(.*?)^ *```$")

// The blocks of a page with the tag sh run in order, in one shell, from the root of a checkout.
// Their output contains the blocks of text that follow them. internal/archtest lists the blocks
// that do not run, which have another tag.
func TestCommandsOfPages(t *testing.T) {
	nstest.New(t) // skips or fails
	bin := t.TempDir()
	for _, name := range []string{"agent", "explain"} {
		err := gobuild.Build(filepath.Join(bin, name), "github.com/wayleave/wayleave/examples/"+name)
		require.NoError(t, err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		if strings.Contains(string(text), "```sh\n") {
			t.Run(filepath.Base(page), func(t *testing.T) { runPage(t, string(text), bin) })
		}
	}
}

// runPage runs the blocks of a page with programs that are built already, in bin.
func runPage(t *testing.T, page, bin string) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink(bin, filepath.Join(dir, "bin")))
	examples, err := filepath.Abs("..")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(examples, filepath.Join(dir, "examples")))
	page = strings.NewReplacer("/tmp/", dir+"/", "make demo", "bin/agent demo", "make bin/agent\n", "").Replace(page)
	page = regexp.MustCompile(`(?m)^ *\(cd examples && go build .*\)$`).ReplaceAllString(page, "")

	const end = "=== end of block ===\n"
	script := strings.Builder{}
	script.WriteString("trap 'kill $(jobs -p) 2> /dev/null || true' EXIT\nmount -t tmpfs none /run\n")
	var blocks []string // those that run
	each := func(do func(tag, text string)) {
		for _, b := range codeBlock.FindAllStringSubmatch(page, -1) {
			do(b[2], regexp.MustCompile("(?m)^"+b[1]).ReplaceAllString(b[3], ""))
		}
	}
	each(func(tag, text string) {
		if tag == "sh" {
			blocks = append(blocks, text)
			script.WriteString(text + "printf '" + strings.ReplaceAll(end, "\n", `\n`) + "'\n")
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-ec", script.String())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // so that the trap runs
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.WaitDelay = time.Minute // for processes that outlast the shell
	// The shell has its own network and mount namespaces, which are removed when it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	out, err := cmd.Output()
	outputs := strings.Split(string(out), end)
	require.NoError(t, err, "after %d of %d blocks:\n%s", len(outputs)-1, len(blocks), out)

	last, printed := 0, false // printed: the previous block was run or printed
	duration := regexp.MustCompile(`; \d+\.\d s in all$`)
	each(func(tag, text string) {
		switch {
		case tag == "sh":
			last, printed = last+1, true
		case tag == "text" && printed:
			for line := range strings.Lines(text) {
				line = duration.ReplaceAllString(strings.TrimRight(line, "\n"), "")
				for part := range strings.SplitSeq(line, "...") {
					require.Contains(t, outputs[last-1], part)
				}
			}
		default:
			printed = false
		}
	})
}
