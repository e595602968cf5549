// SPDX-License-Identifier: Apache-2.0
// The plug-in for SimGrid. Everything happens in callbacks of its timers and communications; there
// are no actors.
#include "runner/simulate/model/network.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <unordered_map>
#include <vector>

// Names of version 3, which Debian 12 has; version 4 has them too, and recommends others.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace s4u = simgrid::s4u;

namespace
{

struct Call {
    s4u::CommPtr comm;
    void (*function)(void *, int64_t);
    void *arg;
    int64_t what;
};

s4u::Engine *engine;
std::vector<s4u::Host *> nodes;
std::unordered_map<const s4u::Activity *, Call> calls; // of communications under way

void at(double time, void (*call)(void *, int64_t), void *arg, int64_t what)
{
    simgrid::kernel::timer::Timer::set(time, [=] { call(arg, what); });
}

void send(int from, int to, double bytes, void (*call)(void *, int64_t), void *arg, int64_t what)
{
    s4u::CommPtr comm = s4u::Comm::sendto_init(nodes[from], nodes[to]);
    comm->set_payload_size(bytes < 1 ? 1 : static_cast<uint64_t>(bytes));
    comm->start();
    calls[comm.get()] = {comm, call, arg, what};
}

void completed(const s4u::Activity &activity)
{
    const auto found = calls.find(&activity);
    if (found == calls.end())
        return;
    // SimGrid still uses the communication when this returns, so a timer releases it.
    const Call call = found->second;
    calls.erase(found);
    simgrid::kernel::timer::Timer::set(s4u::Engine::get_clock(),
                                       [call] { call.function(call.arg, call.what); });
}

double now()
{
    return s4u::Engine::get_clock();
}

void run()
{
    engine->run();
}

// Of the 1,538 bytes that an Ethernet frame of TCP takes on its cable, so many are data.
constexpr double DATA_SHARE = 1448.0 / 1538.0;

// A star: every node has its link to the switch, whose latency is half of that from node to node.
void make_star(const hd_network_options &options)
{
    s4u::NetZone *star = s4u::create_star_zone("cluster");
    for (int i = 0; i < options.nodes; i++) {
        const std::string name = "node" + std::to_string(i);
        s4u::Host *host = star->create_host(name, 1e9);
        s4u::SplitDuplexLink *link =
            star->create_split_duplex_link(name + "-link", options.bytes_per_s * DATA_SHARE);
        link->set_latency(options.latency_s / 2);
        star->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                        {{link, s4u::LinkInRoute::Direction::UP}}, true);
        nodes.push_back(host);
    }
    star->seal();
}

const hd_network network = {at, send, now, run};

const hd_network *open(const hd_network_options *options, char *why, size_t bytes)
{
    try {
        int argc = 2;
        char name[] = "runner", quiet[] = "--log=root.thresh:warning";
        char *arguments[] = {name, quiet, nullptr}, **argv = arguments;
        void (*const interrupted)(int) = std::signal(SIGINT, SIG_DFL);
        engine = new s4u::Engine(&argc, argv);
        std::signal(SIGINT, interrupted); // SimGrid catches it to print what it does
        // The model as options say it: no window of TCP, no acknowledgements on the way back.
        s4u::Engine::set_config(std::string("network/model:") + options->model);
        s4u::Engine::set_config("network/TCP-gamma:0");
        s4u::Engine::set_config("network/crosstraffic:0");
        if (options->platform) {
            engine->load_platform(options->platform);
            nodes = engine->get_all_hosts();
        } else {
            make_star(*options);
        }
        if (static_cast<int>(nodes.size()) < options->nodes) {
            std::snprintf(why, bytes, "%s has %zu hosts, fewer than %d nodes", options->platform,
                          nodes.size(), options->nodes);
            return nullptr;
        }
        s4u::Comm::on_completion_cb(completed);
    } catch (const std::exception &error) {
        std::snprintf(why, bytes, "%s", error.what());
        return nullptr;
    }
    return &network;
}

} // namespace

extern "C" const hd_simgrid_plugin hd_simgrid_plugin = {HD_SIMGRID_ABI, open};
