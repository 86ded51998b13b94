from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agents import Agent, Runner, RunState, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from assent_openai_agents import settle, tools
from play import RUN, AsyncDesk, Stage, call_id

set_tracing_disabled(True)


async def main() -> None:
    stage, desk = Stage(), AsyncDesk()
    calls = [
        function_call(call["tool"], call["arguments"], call_id=call_id(number, stage.action))
        for number, call in enumerate(stage.calls)
    ]
    is_new = stage.action in {"start", "again"}
    done = {"output": [assistant_message("done")]}
    model = ScriptedModel([{"output": calls}, done] if is_new else [done])
    agent = Agent(name="Helpdesk", model=model, tools=await tools(desk, RUN))
    if is_new:
        result: Any = await Runner.run(agent, "Pay them.")
    else:
        state: Any = await RunState.from_string(agent, Path(stage.saved).read_text())
        waiting = len(state.get_interruptions())
        if stage.action == "forge":
            for item in state.get_interruptions():
                state.approve(item)
        elif not await settle(desk, RUN, state):
            return stage.end(waiting, "")
        try:
            result = await Runner.run(agent, state)
        except Exception as failure:
            if stage.action != "forge" or "waiting for sign-off" not in str(failure):
                raise
            return stage.end(waiting, "")
    if result.interruptions:
        stage.saved.write_text(result.to_state().to_string())
        return stage.end(len(result.interruptions), "")
    stage.told = {
        one["call_id"]: json.loads(one["output"])
        for one in model.calls[-1].input
        if one.get("type") == "function_call_output"
    }
    return stage.end(0, str(result.final_output))


asyncio.run(main())
