// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// suites returns the suites in the order in which they run.
func suites() []suite {
	return []suite{
		endToEnd("netpol", "Kubernetes end-to-end, NetworkPolicy", `\[sig-network\] (Netpol|NetworkPolicy)`, 2, nil, nil),
		endToEnd("network", "Kubernetes end-to-end, sig-network without NetworkPolicy", `\[sig-network\]`, 3,
			notHere, nil),
	}
}

// notHere lists the tests of sig-network that need what this cluster does not have. Those with an
// empty reason are another suite.
var notHere = []reason{
	{"Netpol", ""},
	{"NetworkPolicy", ""},
	{"[Feature:LoadBalancer]", "needs load balancers of a cloud"},
	{"[Feature:Networking-IPv4]", "sends packets to the Internet"},
	{"[Feature:Networking-IPv6]", "sends packets to the Internet"},
	{"[Feature:Networking-DNS]", "sends packets to the Internet"},
	{"[Provider:GCE]", "needs a cloud"},
}

// endToEnd returns a part of the end-to-end tests of Kubernetes, of which so many run at once.
func endToEnd(name, title, tests string, processes int, without, known []reason) suite {
	return suite{
		name: name, title: title, skipped: without, known: known,
		version: func(c *cluster) (string, error) {
			printed, err := exec.Command(c.bin("kubernetes/kubectl"), "version", "--client").Output()
			if err != nil {
				return "", err
			}
			_, version, _ := strings.Cut(string(printed), "Client Version: ")
			version, _, _ = strings.Cut(version, "\n")
			return version, nil
		},
		command: func(c *cluster, folder, focus string) []string {
			args := []string{
				c.bin("kubernetes/ginkgo"), "run", "--no-color", "-v", "--timeout=3h", "--keep-going",
				fmt.Sprintf("--procs=%d", processes), "--focus=" + tests,
				"--output-dir=" + folder, "--junit-report=junit.xml",
			}
			if focus != "" {
				// Ginkgo joins several --focus with "or".
				args[6] = "--focus=(" + tests + ").*(" + focus + ")"
			}
			for _, skip := range without {
				args = append(args, "--skip="+regexp.QuoteMeta(skip.test))
			}
			return append(args, c.bin("kubernetes/e2e.test"), "--",
				"--provider=skeleton", "--kubeconfig="+c.kubeconfig("admin"), "--disable-log-dump")
		},
		results: func(folder string) ([]result, error) {
			return readJUnit(filepath.Join(folder, "junit.xml"), tests, without)
		},
		progress: func(line string) string {
			for _, prefix := range []string{"• ", "S [SKIPPED]", "[sig-network]"} {
				if strings.HasPrefix(line, prefix) {
					return line
				}
			}
			return ""
		},
	}
}

// junit is the part of a report in the format of JUnit that is used here.
type junit struct {
	Cases []struct {
		Name    string   `xml:"name,attr"`
		Status  string   `xml:"status,attr"`
		Skipped *message `xml:"skipped"`
		Failure *message `xml:"failure"`
		Error   *message `xml:"error"`
	} `xml:"testsuite>testcase"`
}

type message struct {
	Message string `xml:"message,attr"`
}

// readJUnit reads the results of the tests that match an expression. A test that was not selected
// is none, unless a reason to skip it is known.
func readJUnit(file, tests string, without []reason) ([]result, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var report junit
	if err := xml.Unmarshal(content, &report); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	expression, err := regexp.Compile(tests)
	if err != nil {
		return nil, err
	}
	var results []result
	for _, test := range report.Cases {
		name, isTest := strings.CutPrefix(test.Name, "[It] ")
		if !isTest || !expression.MatchString(name) {
			continue
		}
		r := result{test: name, outcome: passed}
		switch {
		case test.Failure != nil:
			r.outcome, r.message = failed, test.Failure.Message
		case test.Error != nil:
			r.outcome, r.message = failed, test.Error.Message
		case test.Skipped != nil:
			r.outcome, r.message = skipped, strings.TrimPrefix(test.Skipped.Message, "skipped - ")
			// Ginkgo gives no message for tests that were not selected.
			if test.Skipped.Message == "skipped" && why(without, name) == "" {
				continue
			}
		}
		results = append(results, r)
	}
	return results, nil
}
