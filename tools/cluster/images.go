// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/tools/cluster/internal/image"
)

// Names of the images that are made here.
const (
	pauseImage   = "cluster.local/pause:dev"
	agentImage   = "cluster.local/wayleave-agent:dev"
	corednsImage = "cluster.local/coredns:dev"
)

// conntrackProgram sends packets that connection tracking finds invalid. It is an image of the
// end-to-end tests.
const conntrackProgram = "regression-issue-74839"

// images returns the images of the cluster by the name of their archive.
func (c *cluster) images() (map[string]image.Image, error) {
	names, err := c.suiteImageNames()
	if err != nil {
		return nil, err
	}
	pause := []string{pauseImage}
	var suites, conntrack []string
	for _, name := range names {
		switch {
		case strings.Contains(name, "/pause:"):
			pause = append(pause, name)
		case strings.Contains(name, conntrackProgram):
			conntrack = append(conntrack, name)
		default:
			suites = append(suites, name)
		}
	}
	agnhost, err := c.agnhostFiles()
	if err != nil {
		return nil, err
	}
	return map[string]image.Image{
		"pause": {
			Names:      pause,
			Files:      []image.File{{Path: "/pause", Source: c.bin("cluster-programs/pause")}},
			Entrypoint: []string{"/pause"},
		},
		"prober": {
			Names:      []string{proberImage},
			Files:      []image.File{{Path: "/prober", Source: c.bin("cluster-programs/prober")}},
			Entrypoint: []string{"/prober"},
		},
		"gauge": {
			Names:      []string{gaugeImage},
			Files:      []image.File{{Path: "/gauge", Source: c.bin("cluster-programs/gauge")}},
			Entrypoint: []string{"/gauge"},
		},
		"agent": {
			Names: []string{agentImage},
			Files: []image.File{
				{Path: "/agent", Source: c.bin("agent")},
				{Path: "/wayleave-cni", Source: c.bin("wayleave-cni")},
			},
			Entrypoint: []string{"/agent"},
		},
		"coredns": {
			Names:      []string{corednsImage},
			Files:      []image.File{{Path: "/coredns", Source: c.bin("cluster-programs/coredns")}},
			Entrypoint: []string{"/coredns"},
		},
		"pages": {
			Names: []string{pagesImage},
			// wget of busybox does not try again either.
			Files: append(slices.Clone(agnhost), image.File{Path: "/etc/wgetrc", Content: "tries = 1\n"}),
			Cmd:   []string{"/agnhost", "netexec", "--http-port=80"},
			Env:   []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "WGETRC=/etc/wgetrc"},
		},
		"conntrack": {
			Names:      conntrack,
			Files:      []image.File{{Path: "/" + conntrackProgram, Source: c.bin("kubernetes", conntrackProgram)}},
			Entrypoint: []string{"/" + conntrackProgram},
		},
		"agnhost": {
			Names:      suites,
			Files:      agnhost,
			Entrypoint: []string{"/agnhost"},
			Cmd:        []string{"pause"},
			Env:        []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		},
	}, nil
}

// hasSCTP reports whether the kernel has SCTP sockets.
func hasSCTP() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return true
}

// agnhostFiles returns the files of the suites' image: agnhost, and the host's programs that the
// suites run beside it, with their libraries.
func (c *cluster) agnhostFiles() ([]image.File, error) {
	files := []image.File{
		{Path: "/agnhost", Source: c.bin("kubernetes/agnhost")},
		{Path: "/agnhost-2", Link: "agnhost"},
		{Path: "/localhost.crt", Source: c.bin("cluster-programs/localhost.crt")},
		{Path: "/localhost.key", Source: c.bin("cluster-programs/localhost.key")},
		{Path: "/coredns", Source: c.bin("cluster-programs/coredns")},
		{Path: "/etc/passwd", Content: "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n"},
		{Path: "/etc/nsswitch.conf", Content: "hosts: files dns\n"},
		{Path: "/bin/sh", Link: "../usr/bin/dash"},
	}
	if !hasSCTP() {
		// The SCTP emulator serves SCTP over raw sockets, and starts agnhost.real for other
		// protocols. With SCTP in the kernel, the kernel would reset its associations.
		files[0].Source = c.bin("cluster-programs/agnhost")
		files = append(files, image.File{Path: "/agnhost.real", Source: c.bin("kubernetes/agnhost")})
	}
	libraries := map[string]bool{}
	for _, program := range strings.Fields("bash dash curl wget dig nslookup nc ping getent ip conntrack " +
		"awk cat chmod cut date echo env false grep head hostname id kill ls mkdir nproc ps rm sed seq sleep sort " +
		"stat tail test timeout touch tr true uniq wc") {
		source, err := exec.LookPath(program)
		if err != nil {
			return nil, err
		}
		files = append(files,
			image.File{Path: "/usr/bin/" + program, Source: source},
			image.File{Path: "/bin/" + program, Link: "../usr/bin/" + program},
		)
		printed, err := exec.Command("ldd", source).Output()
		if err != nil {
			return nil, fmt.Errorf("libraries of %s: %w", source, err)
		}
		for word := range strings.FieldsSeq(string(printed)) {
			if strings.HasPrefix(word, "/") && !libraries[word] {
				libraries[word] = true
				files = append(files, image.File{Path: word, Source: word})
			}
		}
	}
	return files, nil
}

// suiteImageNames returns the names of the images that the suites start. All are names of one
// image, but for those of pause and of conntrackProgram.
func (c *cluster) suiteImageNames() ([]string, error) {
	names, err := os.ReadFile(c.bin("cluster-programs/suite-images"))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(names)), nil
}

// writeImages writes the archives of all images, unless one is newer than its files, and returns
// their paths.
func (c *cluster) writeImages() ([]string, error) {
	if err := os.MkdirAll(c.bin("cluster-images"), 0o755); err != nil {
		return nil, err
	}
	images, err := c.images()
	if err != nil {
		return nil, err
	}
	newest, err := modified(c.bin("cluster-programs/suite-images"), c.bin("cluster"))
	if err != nil {
		return nil, err
	}
	var archives []string
	for name, content := range images {
		archive := c.bin("cluster-images", name+".tar")
		archives = append(archives, archive)
		var sources []string
		for _, file := range content.Files {
			if file.Source != "" {
				sources = append(sources, file.Source)
			}
		}
		changed, err := modified(sources...)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		if info, err := os.Stat(archive); err == nil && info.ModTime().After(changed) && info.ModTime().After(newest) {
			continue
		}
		if err := image.Write(archive, content); err != nil {
			_ = os.Remove(archive)
			return nil, err
		}
	}
	return archives, nil
}

// modified returns when the last of the files was changed.
func modified(files ...string) (time.Time, error) {
	var last time.Time
	for _, file := range files {
		info, err := os.Stat(filepath.Clean(file))
		if err != nil {
			return last, err
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}
