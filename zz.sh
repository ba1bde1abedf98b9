. ./lib.sh
hosts_up ${1:-4200}
LIMIT=12
t "send_bw $1" perf ib_send_bw 1 -e -s 65536 -n 20
rdma resource show qp; grep -v ' 0$' /dev/null; for c in /sys/class/infiniband/oxeb/ports/1/hw_counters/*; do echo ${c##*/} $(cat $c); done | grep -v ' 0$'
t "write_bw" perf ib_write_bw 1 -s 65536 -n 20
t "send_bw poll" perf ib_send_bw 1 -s 65536 -n 20
t "send_bw mtu 2048" perf ib_send_bw 1 -e -m 2048 -s 65536 -n 20
finish
