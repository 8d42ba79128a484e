// SPDX-License-Identifier: Apache-2.0

package tableowner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

// The numbers of nf_tables, from linux/netfilter/nf_tables.h.
const (
	msgGetTable = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETTABLE
	attrOwner   = 7 // NFTA_TABLE_OWNER
	flagOwner   = 2 // NFT_TABLE_F_OWNER

	headerLength = 4 // struct nfgenmsg
)

// Find returns the owner of a table of the family inet, in the network namespace of the calling
// thread. For a table that does not exist, it returns no owner. Find changes nothing.
func Find(table string) (Owner, error) {
	port, err := readPort(table)
	if err != nil {
		return Owner{}, fmt.Errorf("tableowner: read table inet %s: %w", table, err)
	}
	o := Owner{Port: port}
	if port != 0 {
		o.PID, o.Name = processOf(port)
	}
	return o, nil
}

// readPort returns the netlink port of the owner; 0 if there is none.
func readPort(table string) (port uint32, err error) {
	conn, err := netlink.Dial(netlink.Config{Family: netlink.Netfilter})
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	conn.Request(msgGetTable, unix.NFPROTO_INET, 0, 0, 0).String(unix.NFTA_TABLE_NAME, table)
	err = conn.Query(func(m netlink.Message) (err error) {
		port, err = ownerOf(m.Data)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return port, err
}

// ownerOf reads the body of a message of a table.
func ownerOf(data []byte) (port uint32, err error) {
	var d netlink.Decoder
	d.Begin(data, headerLength)
	var flags uint32
	for d.Next() {
		switch d.Type {
		case unix.NFTA_TABLE_FLAGS:
			flags = d.Uint32()
		case attrOwner:
			port = d.Uint32()
		}
	}
	if flags&flagOwner == 0 {
		port = 0
	}
	return port, d.Err
}

// processOf returns the process whose netlink socket has a port. The port number alone does not
// identify the process. The number is the process id only for the first socket of a process, and
// only in the PID namespace of that process.
func processOf(port uint32) (pid int, name string) {
	sockets, err := os.ReadFile("/proc/thread-self/net/netlink")
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(sockets)) {
		words := strings.Fields(line) // sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode
		if len(words) >= 10 && words[1] == strconv.Itoa(unix.NETLINK_NETFILTER) &&
			words[2] == strconv.FormatUint(uint64(port), 10) {
			return processWithFile("socket:[" + words[9] + "]")
		}
	}
	return 0, ""
}

// processWithFile returns a process that has a file open.
func processWithFile(file string) (pid int, name string) {
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != file {
			continue
		}
		process := strings.Split(link, "/")[2]
		pid, _ = strconv.Atoi(process) // the pattern has a digit first
		comm, _ := os.ReadFile(filepath.Join("/proc", process, "comm"))
		return pid, strings.TrimSpace(string(comm))
	}
	return 0, ""
}
