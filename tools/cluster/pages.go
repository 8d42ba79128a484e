// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
)

// pagesImage replaces the images nginx and busybox, which a cluster without a registry does not
// have.
const pagesImage = "cluster.local/pages:dev"

// runPages runs the blocks of commands with the tag "sh cluster" in documentation pages, like a
// reader who has followed the steps around them. The last page removes Wayleave.
func runPages(ctx context.Context, c *cluster, args []string) error {
	if len(args) == 0 {
		args = []string{"docs/migrate.md", "docs/kubernetes.md"}
	}
	control, err := machine.Open(c.machine(controlName))
	if err != nil {
		return fmt.Errorf("pages: no cluster runs: %w", err)
	}
	folder, err := os.MkdirTemp("", "wayleave-pages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := c.writePageFiles(folder); err != nil {
		return err
	}
	for _, page := range args {
		content, err := os.ReadFile(filepath.Join(c.repository, page))
		if err != nil {
			return err
		}
		blocks := clusterBlocks(string(content))
		if len(blocks) == 0 {
			return fmt.Errorf("pages: %s has no block with the tag \"sh cluster\"", page)
		}
		for _, block := range blocks {
			pod, err := c.agentPod(ctx)
			if err != nil {
				return err
			}
			fmt.Printf("== %s\n%s\n", page, block)
			limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
			cmd := control.NetCommand(limited, "bash", "-euo", "pipefail", "-c", pageScript(block, pod))
			cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.clientEnvironment(), folder, os.Stdout, os.Stderr
			err = cmd.Run()
			cancel()
			if err != nil {
				return fmt.Errorf("pages: commands of %s: %w\n%s", page, err, block)
			}
		}
	}
	return nil
}

// writePageFiles writes the files that the commands of a page read, as the page's reader has edited
// them.
func (c *cluster) writePageFiles(folder string) error {
	daemonSet, err := c.daemonSet()
	if err != nil {
		return err
	}
	uninstall, err := os.ReadFile(filepath.Join(c.repository, "examples/agent/deploy/uninstall.yaml"))
	if err != nil {
		return err
	}
	report, err := os.ReadFile(filepath.Join(c.repository, "datastore/kubernetes/report/crd.yaml"))
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"examples/agent/deploy/kubernetes.yaml": daemonSet, "kubernetes.yaml": daemonSet,
		"uninstall.yaml":                       strings.ReplaceAll(string(uninstall), exampleImage, agentImage),
		"datastore/kubernetes/report/crd.yaml": string(report),
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// agentPod returns the name of an agent's pod, empty if there is none.
func (c *cluster) agentPod(ctx context.Context) (string, error) {
	out, err := c.kubectlCommand(ctx, "get", "pods", "-n", "wayleave", "-l", "app.kubernetes.io/name=wayleave-agent",
		"-o", "jsonpath={.items[*].metadata.name}").Output()
	if err != nil {
		return "", fmt.Errorf("pages: list the agent's pods: %w", err)
	}
	pod, _, _ := strings.Cut(string(out), " ")
	return pod, nil
}

// clusterBlocks returns the blocks with the tag "sh cluster", without their indentation.
func clusterBlocks(page string) (blocks []string) {
	fence := regexp.MustCompile("(?ms)^( *)```sh cluster\n(.*?)^ *```$")
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, regexp.MustCompile("(?m)^"+block[1]).ReplaceAllString(block[2], ""))
	}
	return blocks
}

// pageScript returns a script for bash with the commands of a block. A command with the comment
// "answers" or "times out" is repeated until it does, for at most 30 seconds. The reason is that a
// change of policy takes effect after a moment. A command that times out fails, and not before two
// seconds: one that is refused fails at once.
func pageScript(block, pod string) string {
	block = regexp.MustCompile(`--image=(nginx|busybox)\b`).ReplaceAllString(block, "--image="+pagesImage)
	block = regexp.MustCompile(`\bPOD\b`).ReplaceAllString(block, pod)
	block = regexp.MustCompile(`(?m)^(.*\S) +# answers$`).ReplaceAllString(block, "await answers $1")
	block = regexp.MustCompile(`(?m)^(.*\S) +# times out$`).ReplaceAllString(block, "await timed-out $1")
	return `await() {
	local want=$1 have begin end=$((SECONDS + 30))
	shift
	while :; do
		have=answers begin=$SECONDS
		"$@" || have=failed
		[ $have != failed ] || [ $((SECONDS - begin)) -lt 2 ] || have=timed-out
		[ $have != $want ] || return 0
		[ $SECONDS -lt $end ] || return 1
		sleep 0.5
	done
}
set -x
` + block
}
